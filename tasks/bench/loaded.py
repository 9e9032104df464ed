"""Loads a model in one format and says what it takes: the child process of `tasks.bench.memory`.

A process for each format, because what one has loaded and freed stays with it in part.
"""

import ctypes
import gc
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tasks.bench.footprint import mapped_bytes, resident_bytes
from tasks.children import main, quieten
from turnout.references import from_json

Format = Literal["float32", "bfloat16", "float16", "nf4", "gguf"]
CONTEXT = 512
"""Tokens of context that llama.cpp makes room for here: it loads no model without its KV cache."""
_PAGE = 4096


@dataclass(frozen=True)
class LoadJob:
    """`path` is the model's folder, or the file where `format` is gguf."""

    format: Format
    path: str


@dataclass(frozen=True)
class Loaded:
    """Bytes. `weights` sums the tensors, `measured` is what the memory grew by, on the GPU where there is one.

    `mapped` of it are pages of the model's file that are mapped, which the system may drop and read again.
    """

    parameters: int
    weights: int
    measured: int
    mapped: int
    on: Literal["GPU", "memory"]


def run(raw: dict[str, Any]) -> Loaded:
    quieten()
    job = from_json(LoadJob, raw)
    return _load_gguf(Path(job.path)) if job.format == "gguf" else _load_torch(job)


def _load_torch(job: LoadJob) -> Loaded:
    import torch
    import transformers.modeling_utils  # noqa: F401  what the libraries take is not the model's

    if job.format == "nf4":
        import bitsandbytes  # noqa: F401
    on_gpu = torch.cuda.is_available()
    before = resident_bytes()
    model = _model(job)
    tensors = list(held_tensors(model))
    weights = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if on_gpu:
        return Loaded(_count(model), weights, int(torch.cuda.memory_allocated()), 0, "GPU")
    for tensor in tensors:  # a page that is mapped from the file counts when it was read
        int(tensor.detach().flatten().view(torch.uint8)[::_PAGE].sum())
    _give_back_freed_memory()
    return Loaded(_count(model), weights, resident_bytes() - before, mapped_bytes(".safetensors", ".bin"), "memory")


def _model(job: LoadJob) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    from tasks.quantise import device_map, load_nf4

    if job.format == "nf4":
        return load_nf4(job.path, double_quantisation=True)
    dtype = getattr(torch, job.format)
    return AutoModelForCausalLM.from_pretrained(job.path, dtype=dtype, device_map=device_map(), local_files_only=True)


def held_tensors(model: Any) -> Iterator[Any]:
    """Every parameter once, and the scales that bitsandbytes keeps beside its 4-bit ones."""
    for parameter in model.parameters():
        yield parameter
        state = getattr(parameter, "quant_state", None)
        if state is not None:
            yield from (value for value in state.as_dict(packed=False).values() if hasattr(value, "element_size"))


def _count(model: Any) -> int:
    """Parameters as published: a 4-bit one is packed, two to a byte, and keeps its shape beside it."""
    shapes = ((each.quant_state.shape if hasattr(each, "quant_state") else each.shape) for each in model.parameters())
    return sum(math.prod(shape) for shape in shapes)


def _load_gguf(file: Path) -> Loaded:
    import gguf
    import xllamacpp

    tensors = gguf.GGUFReader(str(file)).tensors
    weights, parameters = sum(int(each.n_bytes) for each in tensors), sum(int(each.n_elements) for each in tensors)
    del tensors
    gc.collect()
    before = resident_bytes()
    settings = xllamacpp.CommonParams()
    settings.model.path = str(file)
    settings.n_ctx, settings.n_parallel = CONTEXT, 1
    server = xllamacpp.Server(settings)  # it warms up with a run through all weights
    _give_back_freed_memory()
    loaded = Loaded(parameters, weights, resident_bytes() - before, mapped_bytes(file.name), "memory")
    del server
    return loaded


def _give_back_freed_memory() -> None:
    gc.collect()
    with suppress(OSError, AttributeError):  # glibc's alone
        ctypes.CDLL("libc.so.6").malloc_trim(0)


if __name__ == "__main__":
    main(run)
