"""How many users a GPU holds: what is left for the KV cache, shared out by blocks or reserved whole."""

from dataclasses import dataclass, replace
from typing import Any

from serving.capacity.attention import BLOCK, Attention
from serving.capacity.gpus import GIB, Gpu

RESERVED_BYTES = round(0.5 * GIB)
"""What CUDA does not offer of the memory that nvidia-smi shows: vLLM's logs say 44.42 GiB of an L40S's 44.99, 79.22 of
an H100's 79.65, 14.56 of a T4's 15."""
OVERHEAD_BYTES = round(1.7 * GIB)
"""Activations of the largest batch and what lies outside of PyTorch. vLLM's logs at start say 1.2 to 1.5 GiB and 0.05
to 0.4 GiB for dense models of 7B to 32B (vllm#15815, #13882, pull 10511, where the latter was once 1.8)."""
FEWER_BITS = ("fp8", "int8", "awq", "nf4")
PARALLEL = (2, 4, 8)


@dataclass(frozen=True)
class Demand:
    """What is to be served: bytes of the whole model's weights and adapters, tokens of the longest and mean request."""

    attention: Attention
    value_bytes: float
    weights_bytes: int
    lora_bytes: int
    context: int
    mean_tokens: int
    parallel: int = 1
    utilization: float = 0.9
    overhead_bytes: int = OVERHEAD_BYTES

    def request_bytes(self, tokens: int, block: int = BLOCK) -> float:
        """KV cache of a request on one of the GPUs."""
        return self.attention.bytes_per_request(tokens, self.value_bytes, self.parallel, block)


def kv_cache_bytes(gpu: Gpu, demand: Demand) -> int:
    """What each GPU has left for the KV cache; below zero where the weights alone do not fit.

    Adapters count whole on every GPU: the engine keeps one of their two matrices on each.
    """
    budget = (gpu.memory_bytes - RESERVED_BYTES) * demand.utilization
    weights = demand.weights_bytes / demand.parallel
    return round(budget - weights - demand.lora_bytes - demand.overhead_bytes)


def users(gpu: Gpu, demand: Demand, tokens: int, block: int = BLOCK) -> int:
    """Requests of `tokens` tokens that the KV cache holds at a time."""
    return int(max(0, kv_cache_bytes(gpu, demand)) // demand.request_bytes(tokens, block))


def fit(gpu: Gpu, demand: Demand) -> dict[str, Any]:
    """A row of figures for `demand.parallel` GPUs of this kind; bytes are those of one GPU."""
    left = kv_cache_bytes(gpu, demand)
    longest, mean = demand.request_bytes(demand.context), demand.request_bytes(demand.mean_tokens)
    reserved, used = demand.request_bytes(demand.context, 1), demand.request_bytes(demand.mean_tokens, 1)
    paged, static = users(gpu, demand, demand.mean_tokens), users(gpu, demand, demand.context, 1)
    return {
        "gpu": gpu.name,
        "generation": gpu.generation,
        "count": demand.parallel,
        "memory_bytes": gpu.memory_bytes,
        "budget_bytes": round((gpu.memory_bytes - RESERVED_BYTES) * demand.utilization),
        "weights_bytes": round(demand.weights_bytes / demand.parallel),
        "lora_bytes": demand.lora_bytes,
        "overhead_bytes": demand.overhead_bytes,
        "kv_cache_bytes": max(0, left),
        "kv_cache_tokens": int(max(0, left) / longest * demand.context),
        "fits": left >= longest,
        "short_bytes": round(max(0, longest - left)),
        "max_concurrent": users(gpu, demand, demand.context),
        "max_concurrent_exact": round(max(0, left) / longest, 2),
        "paged": {"users": paged, "waste_share": round(1 - used / mean, 4)},
        "static": {"users": static, "waste_share": round(1 - used / reserved, 4)},
    }


def ways_to_fit(gpu: Gpu, demand: Demand, sizes: dict[str, int], wanted: int) -> list[str]:
    """What would let `wanted` users of the whole context in: fewer bits, or more GPUs of the kind.

    Args:
        sizes: bytes of the weights at each precision.
    """
    ways = []
    for precision in FEWER_BITS:
        smaller = replace(demand, weights_bytes=sizes.get(precision, demand.weights_bytes))
        if smaller.weights_bytes < demand.weights_bytes and users(gpu, smaller, demand.context) >= wanted:
            ways.append(f"--precision {precision}")
    for parallel in PARALLEL:
        more = replace(demand, parallel=parallel)
        heads_fit = demand.attention.heads % parallel == 0 and parallel > demand.parallel
        if heads_fit and users(gpu, more, demand.context) >= wanted:
            ways.append(f"--tensor-parallel {parallel}")
            break
    return ways
