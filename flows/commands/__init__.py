"""The commands of `turnout`, a module for each group."""
