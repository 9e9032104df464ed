"""What an engine is: its model's sizes, its KV cache, and the memory that its processes take."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from serving.guard.memory import engine_memory
from serving.records import Engine
from turnout.files import read_json

_CACHE_INFO = re.compile(r"^vllm:cache_config_info\{(.*)\} ", re.MULTILINE)
_CACHE_USE = re.compile(r"^vllm:(?:kv_cache_usage_perc|gpu_cache_usage_perc)(?:\{[^}]*\})? ([0-9.e+-]+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_NVIDIA_LIMIT_S = 5


def kv_cache(metrics: str) -> dict[str, Any] | None:
    """Blocks, tokens a block and the share in use (0 to 1), of vLLM's metrics; None where they do not say."""
    infos = [dict(_LABEL.findall(labels)) for labels in _CACHE_INFO.findall(metrics)]
    blocks = [int(info["num_gpu_blocks"]) for info in infos if info.get("num_gpu_blocks", "").isdigit()]
    sizes = [int(info["block_size"]) for info in infos if info.get("block_size", "").isdigit()]
    if not blocks or not sizes:
        return None
    used = [float(value) for value in _CACHE_USE.findall(metrics)]
    use = round(sum(used) / len(used), 4) if used else None
    return {"blocks": sum(blocks), "block_size": sizes[0], "tokens": sum(blocks) * sizes[0], "use": use}


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
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    query = [program, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=_NVIDIA_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    used: dict[int, int] = {}
    for line in answer.stdout.splitlines():
        pid, _, mebibytes = (part.strip() for part in line.partition(","))
        if pid.isdecimal() and mebibytes.isdecimal():
            used[int(pid)] = used.get(int(pid), 0) + int(mebibytes) * 2**20
    return used
