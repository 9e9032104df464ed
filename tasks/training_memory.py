"""Memory of a training that is only thought of, beside the peaks of trainings that were measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from serving.capacity.fit import RESERVED_BYTES
from serving.capacity.gpus import Gpu
from serving.capacity.keys import language_part, read_config
from serving.capacity.shapes import family_shapes, file_shapes
from serving.capacity.weights import parameters, weights_bytes
from tasks.config import TrainConfig
from tasks.memory import GB, MemoryEstimate, estimate_shapes, step_tokens
from tasks.model_shapes import describe_model, find_config
from turnout.errors import BadInput

QWEN_7B = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}
SMOLLM2 = {
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}
_QV: dict[str, Any] = {"target_modules": ("q_proj", "v_proj"), "gradient_checkpointing": True}
_ALL: dict[str, Any] = {"target_modules": "all-linear", "lora_dropout": 0.05}
_CHECKPOINTED = _ALL | {"gradient_checkpointing": True}


@dataclass(frozen=True)
class MeasuredRun:
    """A training whose peak was measured: its model's config, settings, tokens a row, and bytes."""

    name: str
    model: dict[str, Any]
    device: str
    settings: dict[str, Any]
    row_tokens: int
    peak_gb: float


MEASURED = (
    MeasuredRun("7B, q and v, 1 × 512 tokens", QWEN_7B, "gpu", _QV | {"batch_size": 1}, 512, 6.1),
    MeasuredRun("7B, q and v, 2 × 512 tokens", QWEN_7B, "gpu", _QV | {"batch_size": 2}, 512, 6.3),
    MeasuredRun("7B, q and v, 4 × 576 tokens", QWEN_7B, "gpu", _QV | {"batch_size": 4}, 576, 6.8),
    MeasuredRun("7B, all linear, 8 × 2048, checkpoints", QWEN_7B, "gpu", _CHECKPOINTED | {"batch_size": 8}, 2048, 15.2),
    MeasuredRun("7B, all linear, 4 × 2048", QWEN_7B, "gpu", _ALL | {"batch_size": 4}, 2048, 73.9),
    MeasuredRun(
        "7B, all linear, 8 × 2048, no dropout",
        QWEN_7B,
        "gpu",
        _ALL | {"batch_size": 8, "lora_dropout": 0.0},
        2048,
        111.5,
    ),
    MeasuredRun("135M, all linear, 4 × 109", SMOLLM2, "cpu", _ALL | {"batch_size": 4, "lora_dropout": 0.0}, 109, 2.1),
)
"""One H200 and plain TRL, one run each; the last one is the CPU preset's base on two cores."""


def estimate_training(
    model: str,
    train: TrainConfig,
    max_length: int,
    device: str | None,
    gpus: Sequence[Gpu],
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """The estimates for CPU and GPU (or the one `device`), the GPUs that hold the run, and how far off estimates were.

    Raises:
        BadInput: no such model or device, or a model whose tensors are not known.
    """
    if device not in (None, "cpu", "gpu"):
        raise BadInput(f"--device {device!r:.40} is neither cpu nor gpu", "Use one of them, or leave it out.")
    file = find_config(model, tell)
    attention, shapes = describe_model(file, tell)
    if not shapes:
        raise BadInput(
            f"{attention.architecture}: the shapes of its tensors are not known", "Name a folder with its weights."
        )
    settings = dict(language_part(read_config(file)))
    on_disk = file_shapes(file.parent)[1] or weights_bytes(shapes, "bf16")
    devices = [device] if device else ["cpu", "gpu"]
    estimates = {each: estimate_shapes(shapes, settings, train, max_length, each, on_disk) for each in devices}
    runs = [compared(run) for run in MEASURED]
    ratios = [run["measured_gb"] / run["estimated_gb"] for run in runs]
    on_gpu = estimates.get("gpu")
    return {
        "model": model,
        "architecture": attention.architecture,
        "parameters": parameters(shapes),
        "tokens": step_tokens(train, max_length),
        "estimates": [{"device": name, "bytes": _parts(found)} for name, found in estimates.items()],
        "fits": [gpu.name for gpu in gpus if on_gpu.total <= gpu.memory_bytes - RESERVED_BYTES] if on_gpu else None,
        "error": {"lowest": round(min(ratios), 3), "highest": round(max(ratios), 3), "runs": runs},
    }


def _parts(found: MemoryEstimate) -> dict[str, int]:
    """An adapter's four copies are its weights, their gradients, and Adam's two moments: the optimiser's."""
    parts = {
        "weights": found.weights,
        "adapter": found.adapter / 2,
        "optimiser": found.adapter / 2,
        "activations": found.activations,
        "logits": found.logits,
        "process": found.process,
        "total": found.total,
    }
    return {name: round(value) for name, value in parts.items()}


def compared(run: MeasuredRun) -> dict[str, Any]:
    """The estimate of a run beside its measured peak, in GB."""
    shapes = family_shapes(run.model) or {}
    config = TrainConfig(**run.settings)
    on_disk = weights_bytes(shapes, "bf16")
    found = estimate_shapes(shapes, run.model, config, run.row_tokens, run.device, on_disk)
    return {
        "run": run.name,
        "device": run.device,
        "measured_gb": run.peak_gb,
        "estimated_gb": round(found.total / GB, 2),
    }
