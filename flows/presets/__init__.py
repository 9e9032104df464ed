"""Presets that ship with Turnout, one YAML file each; `loading` reads these and users' own."""
