"""Reads what engines say of themselves at `/metrics`: vLLM's names, its older ones, and llama.cpp's."""

import re
from typing import Any

_COUNT = re.compile(
    r"^(?:vllm:num_requests_(running|waiting)|llamacpp:requests_(processing|deferred))(?:\{[^}]*\})? ([0-9.e+]+)$",
    re.MULTILINE,
)
_CACHE_INFO = re.compile(r"^vllm:cache_config_info\{(.*)\} ", re.MULTILINE)
_CACHE_USE = re.compile(r"^vllm:(?:kv_cache_usage_perc|gpu_cache_usage_perc)(?:\{[^}]*\})? ([0-9.e+-]+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def read_counts(metrics: str) -> tuple[int, int] | None:
    """Requests that run, and that wait; None where the metrics do not say."""
    running = waiting = 0
    found = False
    for vllm, llama, value in _COUNT.findall(metrics):
        found = True
        if (vllm or llama) in ("running", "processing"):
            running += int(float(value))
        else:
            waiting += int(float(value))
    return (running, waiting) if found else None


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
