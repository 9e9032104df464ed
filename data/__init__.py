"""Dataset code: reading, checking, splitting and tokenising."""
