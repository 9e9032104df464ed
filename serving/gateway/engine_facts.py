"""What an engine is: its model's sizes, and the memory that its processes take."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from serving import nvidia
from serving.guard.memory import engine_memory
from serving.records import Engine
from turnout.files import read_json

_NVIDIA_LIMIT_S = 5


def architecture(folder: str) -> dict[str, int | None]:
    """Vocabulary, context, embedding and layers, of a base's `config.json`; None for each that it does not say."""
    try:
        config = read_json(Path(folder) / "config.json")
    except (OSError, ValueError):
        config = None
    known = config if isinstance(config, dict) else {}
    text = known.get("text_config") or known
    fields = {
        "vocabulary": "vocab_size",
        "context": "max_position_embeddings",
        "embedding": "hidden_size",
        "layers": "num_hidden_layers",
    }
    return {name: text.get(key) for name, key in fields.items()}


def used_memory(engine: Engine, on_gpus: Mapping[int, int]) -> dict[str, int | None]:
    """Bytes that the engine's processes take, and of GPUs by `gpu_memory`; None where that does not tell."""
    pids = {engine.pid}
    with suppress(psutil.Error):
        pids |= {child.pid for child in psutil.Process(engine.pid).children(recursive=True)}
    shares = [on_gpus[pid] for pid in pids if pid in on_gpus]
    return {"memory_bytes": engine_memory(engine).total, "gpu_memory_bytes": sum(shares) if shares else None}


def gpu_memory() -> dict[int, int]:
    """Bytes of GPU memory by process, as nvidia-smi says; nothing where there is none."""
    used: dict[int, int] = {}
    for pid, mebibytes in nvidia.query("compute-apps", ["pid", "used_memory"], _NVIDIA_LIMIT_S):
        if pid.isdecimal() and mebibytes.isdecimal():
            used[int(pid)] = used.get(int(pid), 0) + int(mebibytes) * 2**20
    return used
