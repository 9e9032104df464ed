"""Whether an adapter's weights can be computed with: a whole safetensors file of finite numbers."""

import json
from pathlib import Path

from turnout.errors import LoadRefused

_EXPONENTS = {"F32": ("<u4", 0x7F80_0000), "F16": ("<u2", 0x7C00), "BF16": ("<u2", 0x7F80)}
"""For each type of number its bits as NumPy reads them, and those that are all set in infinity and NaN alone."""


def check_weights(file: Path) -> None:
    """Refuse weights that are not whole, or not all finite: NaN in an engine's KV cache spoils other answers too.

    Raises:
        LoadRefused: names the first tensor that is not finite, or says how the file is broken.
    """
    import numpy as np
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "np"):
            pass
    except SafetensorError as error:
        raise LoadRefused(f"{file} is not a whole safetensors file: {error}", "Train the version again.") from error
    with open(file, "rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(size))
    content = np.memmap(file, np.uint8, "r", offset=8 + size) if header.keys() - {"__metadata__"} else None
    for name, about in header.items():
        kind = _EXPONENTS.get(about.get("dtype"))
        if kind is None or content is None:
            continue
        begin, end = about["data_offsets"]
        numbers, exponent = content[begin:end].view(kind[0]), kind[1]
        if count := int(((numbers & exponent) == exponent).sum()):
            raise LoadRefused(
                f"{count:,} of {len(numbers):,} numbers of {name} in {file} are NaN or infinite",
                "Train the version again, with a lower train.learning_rate.",
            )
