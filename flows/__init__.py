"""Prefect flows and the command line: sequence only."""
