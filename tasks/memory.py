"""Estimates what a training takes at its peak, without torch, and refuses one that cannot fit.

The terms for a layer's activations were fitted to measured peaks of a 7B model on a GPU; see `estimate`.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving import nvidia
from serving.capacity.shapes import file_shapes
from tasks.config import TrainConfig
from turnout.errors import ResourceShort

GB = 1e9
NOT_QUANTISED = ("embed_tokens", "lm_head", "wte", "wpe", "norm")
PROCESS_BYTES = {"cpu": 1.2e9, "gpu": 0.7e9}
"""What torch and its libraries take before a model is loaded: measured resident memory, and CUDA's context."""
LOGIT_COPIES = 3
LOGIT_TOKENS = {"cpu": 8192, "gpu": 256}
"""At most so many tokens' logits are in memory at a time; TRL makes them in small tiles on a GPU."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Peak bytes of a training, by what takes them."""

    device: str
    weights: float
    adapter: float
    activations: float
    logits: float
    process: float

    @property
    def total(self) -> float:
        return self.weights + self.adapter + self.activations + self.logits + self.process

    def __str__(self) -> str:
        parts = ("weights", "adapter", "activations", "logits", "process")
        return ", ".join(f"{part} {getattr(self, part) / GB:.1f}" for part in parts) + " GB"


def estimate(base_path: str | Path, config: TrainConfig, max_length: int, device: str | None = None) -> MemoryEstimate:
    """The peak of training on rows of at most `max_length` tokens; `device` is "cpu", "gpu" or found out.

    Weights and adapter follow from the tensors' shapes: NF4 takes half a byte and its scales, everything else
    the compute dtype (bf16 on a GPU, at most fp32 on a CPU); LoRA weights count four times, with their gradients
    and Adam's two moments. Against measured peaks, a Qwen2.5-7B on a GPU: 8.1 GB for 6.8 (2,304 tokens a step, q
    and v, checkpointing), 15.4 for 15.2 (16,384 tokens, all layers, checkpointing), 75.3 for 73.9 (8,192 tokens, no
    checkpointing); SmolLM2-135M on a CPU: 2.6 for 2.1 (436 tokens, all layers, no dropout).
    """
    folder = Path(base_path)
    device = device or ("gpu" if free_gpu_bytes() is not None else "cpu")
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    shapes, on_disk = file_shapes(folder)
    return estimate_shapes(shapes, settings, config, max_length, device, on_disk)


def estimate_shapes(
    shapes: dict[str, tuple[int, ...]],
    settings: dict[str, Any],
    config: TrainConfig,
    max_length: int,
    device: str,
    on_disk: int,
) -> MemoryEstimate:
    """`estimate` for a base with tensors of these shapes, this config.json and weight files of `on_disk` bytes."""
    width = 2 if device == "gpu" else 4
    linear = {name: shape for name, shape in shapes.items() if is_quantised(name, shape)}
    quantised = sum(math.prod(shape) for shape in linear.values())
    other = sum(math.prod(shape) for shape in shapes.values()) - quantised
    scales = 1 / 64 + 4 / (64 * 256) if config.double_quantisation else 4 / 64
    weights = quantised * (0.5 + scales) + other * width
    weights += width * max((math.prod(shape) for shape in linear.values()), default=0)  # one layer, dequantised
    if device == "cpu":
        weights += on_disk  # mapped while they are quantised
    lora = sum(config.lora_rank * sum(shape) for name, shape in linear.items() if _is_target(name, config))
    tokens = step_tokens(config, max_length)
    return MemoryEstimate(
        device=device,
        weights=weights,
        adapter=lora * width * 4,
        activations=tokens * _activation_bytes(settings, config, width),
        logits=min(tokens, LOGIT_TOKENS[device]) * settings.get("vocab_size", 32000) * 4 * LOGIT_COPIES,
        process=PROCESS_BYTES[device],
    )


def step_tokens(config: TrainConfig, max_length: int) -> int:
    """Tokens that go through the model at a time, at most."""
    return config.batch_size * (max(config.packed_length, max_length) if config.packing else max_length)


def require_memory(base_path: str | Path, config: TrainConfig, max_length: int) -> MemoryEstimate:
    """The estimate, if it fits into `train.memory_budget_gb`, or else into what is free now.

    Raises:
        ResourceShort: it does not; says by how much, and which settings to lower.
    """
    needed = estimate(base_path, config, max_length)
    free = free_gpu_bytes() if needed.device == "gpu" else free_memory_bytes()
    limit, name = free or 0.0, f"are free on the {needed.device.upper()}"
    if config.memory_budget_gb is not None:
        limit, name = config.memory_budget_gb * GB, "are allowed by train.memory_budget_gb"
    if needed.total > limit:
        raise ResourceShort(
            f"training needs about {needed.total / GB:.1f} GB ({needed}), and {limit / GB:.1f} GB {name}",
            _what_to_lower(needed, config, max_length),
        )
    return needed


def _what_to_lower(needed: MemoryEstimate, config: TrainConfig, max_length: int) -> str:
    if needed.weights + needed.process > needed.activations + needed.logits:
        return "The model itself takes most of it: use a smaller base or a larger machine."
    steps = []
    if not config.gradient_checkpointing:
        steps.append("set train.gradient_checkpointing: true")
    if config.batch_size > 1:
        steps.append(f"lower train.batch_size ({config.batch_size}) and raise train.gradient_accumulation instead")
    steps.append(f"lower {'train.packed_length' if config.packing else 'data.max_length'} ({max_length} tokens)")
    return f"{'; '.join(steps)[0].upper()}{'; '.join(steps)[1:]}."


def _activation_bytes(settings: dict[str, Any], config: TrainConfig, width: int) -> float:
    """Bytes a token that are kept for the backward pass, over all layers."""
    hidden = settings.get("hidden_size") or settings.get("n_embd") or 4096
    layers = settings.get("num_hidden_layers") or settings.get("n_layer") or 32
    inner = settings.get("intermediate_size") or 4 * hidden
    heads = settings.get("num_attention_heads") or settings.get("n_head") or 32
    queries = heads * (settings.get("head_dim") or hidden // heads)
    layer = width * (4 * inner + 5 * hidden + 3 * queries) + 4 * 2 * hidden  # the norms keep theirs in fp32
    if config.lora_dropout:
        layer += width * (inner + 3 * hidden)
    return layers * hidden * width + layer if config.gradient_checkpointing else layers * layer


def is_quantised(name: str, shape: tuple[int, ...]) -> bool:
    """Whether bitsandbytes holds the tensor in NF4: the weight of a linear layer that is not the head."""
    return len(shape) == 2 and name.endswith(".weight") and not any(part in name for part in NOT_QUANTISED)


def _is_target(name: str, config: TrainConfig) -> bool:
    if isinstance(config.target_modules, str):
        return True
    path = name.removesuffix(".weight")
    return any(path == target or path.endswith(f".{target}") for target in config.target_modules)


def free_gpu_bytes() -> float | None:
    """Free memory of the first GPU that this process may use, as its driver's own tool says; None without a GPU."""
    rows = nvidia.query("gpu", ["memory.free"])
    return float(rows[0][0]) * 2**20 if rows and rows[0][0].isdecimal() else None


def free_memory_bytes() -> float:
    import psutil

    return float(psutil.virtual_memory().available)
