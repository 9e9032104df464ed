import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from registry.weights import check_weights
from turnout.errors import LoadRefused


def saved(folder: Path, kind: str, *arrays: Any) -> Path:
    """A safetensors file: its header's size, its header, and the numbers."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for number, array in enumerate(arrays):
        offsets = [at, at := at + array.nbytes]
        header[f"layer.{number}"] = {"dtype": kind, "shape": array.shape, "data_offsets": offsets}
    text = json.dumps(header).encode()
    file = folder / "weights.safetensors"
    file.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(array.tobytes() for array in arrays))
    return file


def bfloat16(*values: float) -> Any:
    return (np.array(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_named(tmp_path: Path, value: float) -> None:
    for kind, numbers in {
        "F32": lambda *values: np.array(values, np.float32),
        "F16": lambda *values: np.array(values, np.float16),
        "BF16": bfloat16,
    }.items():
        check_weights(saved(tmp_path, kind, numbers(1, -2, 0), numbers(3e4, 1e-6, -0.0)))
        with pytest.raises(LoadRefused, match=r"1 of 3 numbers of layer\.1 in .* are NaN or infinite"):
            check_weights(saved(tmp_path, kind, numbers(1, -2, 0), numbers(1, value, 2)))


def test_what_is_not_whole_is_refused(tmp_path: Path) -> None:
    file = saved(tmp_path, "F32", np.zeros(1000, np.float32))
    for size in (2000, 100, 4, 0):
        file.write_bytes(file.read_bytes()[:size])
        with pytest.raises(LoadRefused, match="not a whole safetensors file"):
            check_weights(file)


def test_no_tensors_and_unknown_numbers_are_the_engines_affair(tmp_path: Path) -> None:
    check_weights(saved(tmp_path, "F32"))
    check_weights(saved(tmp_path, "I8", np.full(4, -1, np.int8)))
