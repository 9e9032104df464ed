"""Writes a safetensors file tensor by tensor, so that a model larger than memory can be written.

The `safetensors` library takes all tensors at once, and bfloat16 only from torch. The format (a length, a JSON
header, the bytes in its order) is fixed: https://github.com/huggingface/safetensors#format
"""

import json
import math
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

BYTES = {"BF16": 2, "F16": 2, "F32": 4}


def write_tensors(path: Path, shapes: Mapping[str, tuple[str, tuple[int, ...]]], tensors: Iterable[Any]) -> None:
    """Write `tensors`, contiguous buffers that come in the order of `shapes` (name → dtype, shape), into `path`.

    Raises:
        ValueError: a buffer's size is not what its dtype and shape ask for.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, (dtype, shape) in shapes.items():
        end = start + BYTES[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, buffer in zip(shapes, tensors, strict=True):
            first, last = header[name]["data_offsets"]
            if memoryview(buffer).nbytes != last - first:
                raise ValueError(f"{name}: {memoryview(buffer).nbytes} bytes, its shape asks for {last - first}")
            file.write(memoryview(buffer).cast("B"))
