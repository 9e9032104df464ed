"""Which modules of a base an engine lets adapters change."""

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from turnout.errors import EngineError
from turnout.references import Base

LINEAR_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The linear layers of most bases, ready for adapters that are not known yet."""


def lora_targets(base: Base, wanted: Iterable[str] = ()) -> tuple[str, ...]:
    """The usual linear layers and those of `wanted`, as far as `base` has them.

    An engine leaves what is not among its targets out of an adapter without a word.

    Raises:
        EngineError: the base has none of them.
    """
    own = module_names(Path(base.path))
    asked = dict.fromkeys((*LINEAR_TARGETS, *sorted(leaf(name) for name in wanted)))
    found = tuple(name for name in asked if not own or name in own)
    if not found:
        raise EngineError(
            f"{base.name} has none of the modules {', '.join(asked)}; it has {', '.join(sorted(own)[:20])}",
            "Name some of those in train.target_modules and train, or use another base.",
        )
    return found


def module_names(folder: Path) -> frozenset[str]:
    """The last parts of the names of the modules whose weights lie in `folder`; empty where they cannot be read."""
    try:
        index = folder / "model.safetensors.index.json"
        tensors = _json(index.read_bytes())["weight_map"] if index.is_file() else _header(folder / "model.safetensors")
    except (OSError, ValueError, KeyError, struct.error):
        return frozenset()
    return frozenset(leaf(name.removesuffix(".weight")) for name in tensors if name.endswith(".weight"))


def leaf(module: str) -> str:
    """`q_proj` of `model.layers.0.self_attn.q_proj`."""
    return module.rpartition(".")[2]


def _header(file: Path) -> dict[str, Any]:
    with open(file, "rb") as opened:
        (size,) = struct.unpack("<Q", opened.read(8))
        return _json(opened.read(min(size, 100_000_000)))


def _json(text: bytes) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    return value
