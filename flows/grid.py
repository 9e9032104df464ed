"""Reads `--sweep train.lora_rank=8,16` options into the combinations of their values, each checked as a preset is."""

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import Any

import yaml

from flows.presets.loading import load_preset
from tasks.config import TrainConfig, train_settings
from tasks.sweeping import Combination
from turnout.digests import json_sha256
from turnout.errors import BadInput

MOST = 64
"""Combinations of one sweep."""
_EXAMPLE = "for example: --sweep train.learning_rate=2e-4,5e-4 --sweep train.lora_rank=8,16"


def combinations(preset: str, overrides: Sequence[str], options: Iterable[str]) -> list[Combination]:
    """Each combination of the values in `options`, over the preset with its `overrides`.

    Raises:
        BadInput: an option that cannot be read, a key twice or outside `train`, two combinations that train the same,
            or more than 64.
        PresetError: an unknown key, or a value out of bounds.
    """
    grid: dict[str, list[str]] = {}
    for option in options:
        key, values = _parsed(option)
        if key in grid:
            raise BadInput(f"--sweep {key} is given twice", f"give all its values at once: --sweep {key}=A,B,C")
        grid[key] = values
    count = prod(map(len, grid.values()))
    if count > MOST:
        raise BadInput(f"the sweep has {count} combinations, and {MOST} are the most", "leave out values or keys")
    found: list[Combination] = []
    trained: dict[str, str] = {}
    for number, chosen in enumerate(product(*grid.values()), 1):
        written = tuple(f"{key}={value}" for key, value in zip(grid, chosen, strict=True))
        train = load_preset(preset, [*overrides, *written]).train
        digest = json_sha256(_what_counts(train))
        if digest in trained:
            raise BadInput(
                f"{trained[digest]} and {', '.join(written)} train the same adapter",
                "sweep each value once, and only settings that the result depends on",
            )
        trained[digest] = ", ".join(written)
        settings = {key: _value(train, key) for key in grid}
        found.append(Combination(number, count, settings, written, train))
    return found


def _parsed(option: str) -> tuple[str, list[str]]:
    """The key of an option, and its values as they were written: commas within brackets separate nothing."""
    key, found, text = option.partition("=")
    key = key.strip()
    section, _, setting = key.partition(".")
    if not found or not key:
        raise BadInput(f"--sweep {option!r:.100} is not of the form train.key=A,B", _EXAMPLE)
    if section != "train" or not setting:
        raise BadInput(
            f"--sweep {key:.100}: only settings of train can be swept, because losses on other rows cannot be compared",
            _EXAMPLE,
        )
    listed = f"[{text}]"
    try:
        node = yaml.compose(listed, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        node = None
    if not isinstance(node, yaml.SequenceNode) or not node.value:
        raise BadInput(f"--sweep {option!r:.100}: its values cannot be read", f"separate them by commas, {_EXAMPLE}")
    return key, [listed[each.start_mark.index : each.end_mark.index] for each in node.value]


def _what_counts(train: TrainConfig) -> dict[str, Any]:
    """The settings that the result depends on, without those that another one makes idle."""
    idle = {"packed_length": not train.packing, "epochs": train.max_steps is not None}
    return {key: value for key, value in train_settings(train).items() if not idle.get(key)}


def _value(train: TrainConfig, key: str) -> Any:
    value = getattr(train, key.removeprefix("train."))
    return list(value) if isinstance(value, tuple) else value
