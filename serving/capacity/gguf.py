"""Bytes of a model as llama.cpp quantises it, tensor by tensor, by the rules of its `llama-quant.cpp`."""

import math
import re

from serving.capacity.shapes import Shapes

BITS = {
    "F32": 32,
    "F16": 16,
    "Q8_0": 8.5,
    "Q6_K": 6.5625,
    "Q5_1": 6,
    "Q5_0": 5.5,
    "Q5_K": 5.5,
    "Q4_K": 4.5,
    "Q4_0": 4.5,
}
"""A weight's bits with its scales: of 32 weights (Q8_0, Q5_1, Q5_0, Q4_0) or of 256 (the K types)."""
FALLBACK = {"Q6_K": "Q8_0", "Q5_K": "Q5_1", "Q4_K": "Q5_0"}
"""What takes the place of a K type in a tensor whose rows are no multiple of 256 weights."""
GGUF_TYPES = {"Q8_0": "Q8_0", "Q5_K_M": "Q5_K", "Q4_K_M": "Q4_K", "Q4_0": "Q4_0"}
_LAYER = re.compile(r"\.(\d+)\.")
_MORE_BITS = ("v_proj.", "down_proj", ".w2.", "qkv_proj.", "c_attn.")


def gguf_bytes(shapes: Shapes, kind: str) -> int:
    """Bytes of all tensors; the file has a few megabytes more for the tokenizer."""
    layers = 1 + max((_layer(name) for name in shapes), default=0)
    tied = not any("lm_head" in name for name in shapes)
    bits = 0.0
    for name, shape in shapes.items():
        bits += math.prod(shape) * BITS[_type(name, shape, kind, layers, tied)]
    return round(bits / 8)


def _type(name: str, shape: tuple[int, ...], kind: str, layers: int, tied: bool) -> str:
    if len(shape) < 2 or "norm" in name:
        return "F32"
    plain = GGUF_TYPES[kind]
    is_head = "lm_head" in name or (tied and ("embed_tokens" in name or "wte" in name))
    chosen = plain
    if plain != "Q8_0" and is_head:
        chosen = "Q6_K"
    elif kind.endswith("_K_M") and any(part in name for part in _MORE_BITS):
        whole = any(part in name for part in ("qkv_proj.", "c_attn."))
        if whole:
            chosen = {"Q4_K": "Q5_K", "Q5_K": "Q6_K"}[plain]
        elif _gets_more_bits(_layer(name), layers):
            chosen = "Q6_K"
    if chosen.endswith("_K") and shape[-1] % 256:
        chosen = FALLBACK[chosen]
    return chosen if shape[-1] % 32 == 0 else "F16"


def _gets_more_bits(layer: int, layers: int) -> bool:
    """The first and the last eighth of the layers, and every third one between."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def _layer(name: str) -> int:
    found = _LAYER.search(name)
    return int(found[1]) if found else 0
