"""What every part of Turnout shares: errors, references, paths, digests, atomic files."""

__version__ = "0.1.0"
