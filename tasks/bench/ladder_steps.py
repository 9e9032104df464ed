"""The formats of weights that `bench ladder` compares: which engine serves each, from which file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from serving.config import Quantisation
from serving.llama_cpp.gguf import ensure_gguf
from serving.machine import this_machine
from serving.vllm import resolve_dtype
from tasks.base_folder import weight_files
from tasks.bases import ensure_parity_base
from tasks.bench.engines import Wanted
from tasks.bench.setting import BenchSetting
from turnout.paths import cache
from turnout.references import Base

QUANTISATIONS: tuple[Quantisation, ...] = tuple(kind for kind in get_args(Quantisation) if kind != "bf16")
REFERENCE = "llama.cpp f16"
"""What all others are compared with."""
ON_GPUS = ("fp8", "bitsandbytes")
"""Formats that vLLM quantises a 16-bit base to while it loads it; AWQ needs a base that was quantised before."""


@dataclass(frozen=True)
class Step:
    """`size_bytes` is the weights' file on the disk. An `optional` one is left out where its engine does not start."""

    configuration: str
    wanted: Wanted
    size_bytes: int
    optional: bool = False


def steps(setting: BenchSetting) -> Iterator[Step]:
    """llama.cpp's formats of the served base, from the largest, then vLLM's; files are made when their turn comes."""
    for quantisation in QUANTISATIONS:
        file = ensure_gguf(cache(), setting.base, quantisation, setting.progress)
        settings = setting.serving.llama_cpp.model_copy(update={"quantisation": quantisation})
        engine = setting.engine(kind="llama_cpp", llama_cpp=settings.model_dump())
        yield Step(f"llama.cpp {quantisation}", engine, file.stat().st_size)
    yield from vllm_steps(setting)
    if this_machine().gpus:
        for name in ON_GPUS:
            engine = setting.engine(base=setting.original, extra_args=("--quantization", name))
            yield Step(f"vLLM {name}", engine, _weights(setting.original), optional=True)


def vllm_steps(setting: BenchSetting) -> list[Step]:
    """vLLM on the base as it was published and on its NF4-parity copy, in the number format that it computes in."""
    dtype = resolve_dtype(setting.serving, this_machine())
    dtype = "bfloat16" if dtype == "auto" else dtype  # what published bases have, and the parity copy always
    parity = setting.base if setting.base.parity_of else ensure_parity_base(setting.original)
    bases = ((parity, f"vLLM {dtype}, NF4 parity"), (setting.original, f"vLLM {dtype}, original"))
    return [Step(name, setting.engine(base=base), _weights(base)) for base, name in bases]


def _weights(base: Base) -> int:
    return sum(file.stat().st_size for file in weight_files(Path(base.path)))
