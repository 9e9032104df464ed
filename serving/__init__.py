"""Engines: starting them, loading adapters into them, proving what they serve."""
