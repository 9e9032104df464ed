"""Benches: what engines do under load, and what formats cost, measured on this machine."""
