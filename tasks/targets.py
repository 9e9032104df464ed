"""Which layers a LoRA adapter may be put on."""

import difflib
from collections.abc import Iterable
from pathlib import Path

from serving.capacity.shapes import file_shapes
from tasks.memory import is_quantised
from turnout.errors import BadInput


def linear_layers(base_path: str | Path) -> list[str]:
    """The paths of the layers that NF4 holds, from the weight files' headers; no model is loaded."""
    shapes, _ = file_shapes(Path(base_path))
    return [name.removesuffix(".weight") for name, shape in shapes.items() if is_quantised(name, shape)]


def check_targets(wanted: tuple[str, ...] | str, layers: Iterable[str], base_name: str) -> list[str]:
    """The names of the modules to adapt; "all-linear" means every linear layer that NF4 holds, so not the head.

    Raises:
        BadInput: one of them is the name of no linear layer; names near ones.
    """
    paths = list(layers)
    names = sorted({path.rsplit(".", 1)[-1] for path in paths})
    if isinstance(wanted, str):
        return names
    for target in wanted:
        if not any(path == target or path.endswith(f".{target}") for path in paths):
            near = difflib.get_close_matches(target, names, 1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise BadInput(
                f"train.target_modules: {base_name} has no linear layer called {target!r}",
                f"{hint}Its linear layers: {', '.join(names)}.",
            )
    return list(wanted)
