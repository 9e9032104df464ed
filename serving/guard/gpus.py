"""What is used of each GPU's memory, and what engines have reserved of it on purpose."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from serving.guard.memory import Filled
from serving.records import Engine

_QUERY = ("--query-gpu=index,memory.used,memory.total", "--format=csv,noheader,nounits")
_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Gpu:
    """Bytes used and there, of the GPU that nvidia-smi numbers `index`."""

    index: int
    used: int
    total: int

    def beyond(self, reserved: float) -> Filled:
        """What is used beyond the `reserved` share, of what is there beyond it.

        vLLM takes `serving.gpu_memory_utilization` of a GPU when it starts, whatever it serves: what it takes is no
        sign of anything. What grows is beside that plan (CUDA's own, scorings, other processes), in what it left.
        """
        kept = int(min(reserved, 1.0) * self.total)
        return Filled(max(self.used - kept, 0), max(self.total - kept, 0))


def read_gpus() -> list[Gpu]:
    """Every GPU of this machine; none where there is no nvidia-smi, or it does not answer."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        answer = subprocess.run([program, *_QUERY], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return parse(answer.stdout)


def parse(told: str) -> list[Gpu]:
    """GPUs by nvidia-smi's lines of index, MiB used and MiB there; one that does not tell its memory is left out."""
    gpus = []
    for line in told.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == 3 and all(word.isdecimal() for word in words):
            index, used, total = map(int, words)
            gpus.append(Gpu(index, used * 2**20, total * 2**20))
    return gpus


def on_gpu(engine: Engine, index: int) -> bool:
    """Whether an engine computes on that GPU. One that was given GPUs by other names than numbers may be on any."""
    if engine.computes_on.startswith("cpu"):
        return False
    visible = engine.config.env.get("CUDA_VISIBLE_DEVICES") or os.environ.get("CUDA_VISIBLE_DEVICES") or ""
    words = [word.strip() for word in visible.split(",") if word.strip()]
    if not all(word.isdecimal() for word in words):
        return True
    several = engine.kind != "vllm"  # llama.cpp spreads a model over all that it sees
    given = [int(word) for word in words] or list(range(engine.config.tensor_parallel))
    return (several and not words) or index in (given if several else given[: engine.config.tensor_parallel])


def reserved_share(engines: Iterable[Engine], index: int) -> float:
    """The share of a GPU that vLLM engines have taken by their settings."""
    return sum(each.config.gpu_memory_utilization for each in engines if each.kind == "vllm" and on_gpu(each, index))
