"""Bytes of a model's weights at each precision, and of LoRA adapters for it."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from serving.capacity.gguf import GGUF_TYPES, gguf_bytes
from serving.capacity.shapes import Shapes
from turnout.errors import BadInput

KEPT = ("embed", "lm_head", "wte", "wpe", "norm", "vision", "visual", "router", "mlp.gate.weight")
"""Parts of the names of tensors that quantisers leave in 16 bits."""
ALL_LINEAR = "all-linear"


@dataclass(frozen=True)
class Precision:
    """Bits of a linear layer's weight with its scales, bits of all other tensors, and bytes for each output row."""

    bits: float
    other_bits: float = 16
    row_bytes: int = 0
    says: str = ""


PRECISIONS = {
    "fp32": Precision(32, 32, says="as many checkpoints are trained"),
    "bf16": Precision(16, says="as published; also fp16"),
    "fp8": Precision(8, says="W8A8; Ada, Hopper and newer compute in it"),
    "int8": Precision(8, row_bytes=4, says="W8A8 or LLM.int8, an fp32 scale for each output row"),
    "nf4": Precision(4 + 8 / 64 + 32 / (64 * 256), says="bitsandbytes with double quantisation, as Turnout trains"),
    "nf4_single": Precision(4 + 32 / 64, says="bitsandbytes' default: an fp32 scale for 64 weights"),
    "awq": Precision(4 + 16 / 128 + 4 / 128, says="W4A16, groups of 128 with fp16 scale and 4-bit zero"),
    "gptq": Precision(4 + 16 / 128 + 4 / 128, says="as awq"),
    "mxfp4": Precision(4 + 8 / 32, says="an 8-bit exponent for 32 weights"),
    "nvfp4": Precision(4 + 8 / 16, says="an fp8 scale for 16 weights; Blackwell computes in it"),
}
SAME = {"fp16": "bf16", "bfloat16": "bf16", "float16": "bf16", "float32": "fp32", "int4": "awq", "w4a16": "awq"}


def weights_bytes(shapes: Shapes, precision: str) -> int:
    """Bytes of the weights at `precision`: a key of PRECISIONS or a GGUF type.

    Raises:
        BadInput: no such precision.
    """
    name = precision_name(precision)
    if name in GGUF_TYPES:
        return gguf_bytes(shapes, name)
    chosen = PRECISIONS[name]
    bits = rows = 0.0
    for tensor, shape in shapes.items():
        linear = is_linear(tensor, shape)
        bits += math.prod(shape) * (chosen.bits if linear else chosen.other_bits)
        rows += math.prod(shape[:-1]) if linear else 0
    return round(bits / 8 + rows * chosen.row_bytes)


def precision_name(name: str) -> str:
    """The one name of a precision that may be spelt in several ways.

    Raises:
        BadInput: no such precision.
    """
    plain = SAME.get(name.lower(), name.lower())
    for known in (*PRECISIONS, *GGUF_TYPES):
        if plain == known.lower():
            return known
    known_names = ", ".join((*PRECISIONS, *GGUF_TYPES))
    raise BadInput(f"--precision {name!r:.60} is not known", f"Use one of {known_names}.")


def parameters(shapes: Shapes) -> int:
    return sum(math.prod(shape) for shape in shapes.values())


def is_linear(name: str, shape: tuple[int, ...]) -> bool:
    """Whether quantisers shrink the tensor: the weight of a linear layer or of experts, but not embeddings or head."""
    if any(part in name for part in KEPT):
        return False
    return (len(shape) == 2 and name.endswith(".weight")) or (len(shape) == 3 and "experts" in name)


def lora_parameters(shapes: Shapes, rank: int, targets: Sequence[str]) -> int:
    """rank × (in + out) for every linear layer that `targets` name; of all of them for `all-linear`.

    Raises:
        BadInput: no layer has such a name.
    """
    linear = {name: shape for name, shape in shapes.items() if is_linear(name, shape) and len(shape) == 2}
    if list(targets) == [ALL_LINEAR]:
        return sum(rank * sum(shape) for shape in linear.values())
    modules = {name: re.sub(r"\.weight$", "", name).rpartition(".")[2] for name in linear}
    if unknown := sorted(set(targets) - set(modules.values())):
        raise BadInput(
            f"--lora-targets: the model has no linear layer {', '.join(unknown)}",
            f"Use all-linear, or some of {', '.join(sorted(set(modules.values()))[:20])}.",
        )
    return sum(rank * sum(linear[name]) for name, module in modules.items() if module in targets)
