"""Configs as their makers published them, and the questions that the tests ask of them."""

from pathlib import Path
from typing import Any

from serving.capacity.attention import Attention, read_attention
from serving.capacity.keys import read_config
from serving.capacity.shapes import family_shapes

CONFIGS = Path(__file__).parent / "configs"


def config(name: str, **changed: Any) -> dict[str, Any]:
    return read_config(CONFIGS / f"{name}.json") | changed


def attention(name: str, **changed: Any) -> Attention:
    return read_attention(config(name, **changed))


def shapes(name: str) -> dict[str, tuple[int, ...]]:
    found = family_shapes(config(name))
    assert found is not None, name
    return found
