"""What is used of each GPU's memory, and what engines have reserved of it on purpose."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from serving import nvidia
from serving.guard.memory import Filled
from serving.records import Engine


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
    return as_gpus(nvidia.query("gpu", ["index", "memory.used", "memory.total"]))


def as_gpus(rows: Iterable[Sequence[str]]) -> list[Gpu]:
    """GPUs by index, MiB used and MiB there; one that does not tell its memory is left out."""
    numbers = (tuple(map(int, words)) for words in rows if all(word.isdecimal() for word in words))
    return [Gpu(index, used * 2**20, total * 2**20) for index, used, total in numbers]


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
