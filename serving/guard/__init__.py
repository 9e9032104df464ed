"""The memory guard: watches engines, host and GPUs, clears what it can, and restarts an engine before a limit."""
