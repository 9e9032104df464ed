"""What the training ran on: hardware, library versions, and the most memory that it took."""

import importlib.metadata
import os
import platform
import resource
from pathlib import Path

LIBRARIES = ("torch", "transformers", "peft", "trl", "bitsandbytes", "accelerate", "datasets")


def hardware() -> str:
    """The GPU's name, or the CPU's model and count."""
    import torch

    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name(0))
    return f"{cpu_model()}, {os.cpu_count()} CPUs"


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def libraries() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in LIBRARIES}


def peak_memory_bytes() -> int:
    """Of the GPU where there is one, else of this process, since it began."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
