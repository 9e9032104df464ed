"""What an engine can use on this machine: GPUs, cores, libraries to preload."""

import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from serving import nvidia

PRELOADS = ("libtcmalloc_minimal.so.4", "libiomp5.so")
"""An allocator and an OpenMP that vLLM asks for on CPUs: together they give about 1.7 times the throughput."""
_LIBRARY_FOLDERS = (
    Path(sys.prefix, "lib"),
    Path("/usr/lib/x86_64-linux-gnu"),
    Path("/usr/lib/aarch64-linux-gnu"),
    Path("/usr/lib64"),
    Path("/usr/lib"),
)


@dataclass(frozen=True)
class Machine:
    """`gpus` are the names of the GPUs, `cores` the logical CPUs that this process may use at a time."""

    gpus: tuple[str, ...]
    cores: int
    native_bfloat16: bool
    preloads: tuple[str, ...]

    @property
    def device(self) -> str:
        return self.gpus[0] if self.gpus else f"cpu {os.uname().machine}"


@cache
def this_machine() -> Machine:
    return Machine(_gpu_names(), _usable_cores(), _computes_in_bfloat16(), _found_preloads())


def _gpu_names() -> tuple[str, ...]:
    # Its first answer after the driver was loaded takes long, and is kept for as long as this process lives.
    return tuple(name for (name,) in nvidia.query("gpu", ["name"], limit_s=30))


def _usable_cores() -> int:
    """The CPUs of this process, cut down to the container's quota: more threads than that only wait for each other."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return min(cores, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        return cores


def _computes_in_bfloat16() -> bool:
    """Where the CPU does not, bfloat16 products are emulated: a prefill was measured at a third of float32's speed."""
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return any(flag in flags for flag in ("avx512_bf16", "amx_bf16", " bf16"))


def _found_preloads() -> tuple[str, ...]:
    files = ([folder / name for folder in _LIBRARY_FOLDERS if (folder / name).is_file()] for name in PRELOADS)
    return tuple(str(found[0]) for found in files if found)
