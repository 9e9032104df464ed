"""`bench memory`: what the model takes as loaded, in 32, 16 and 4 bits, each in a process of its own."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from serving.capacity.shapes import Shapes, file_shapes
from serving.capacity.weights import weights_bytes
from serving.config import Quantisation
from serving.llama_cpp.gguf import ensure_gguf
from serving.machine import this_machine
from tasks.bench.environment import subject
from tasks.bench.loaded import CONTEXT, Format, Loaded, LoadJob
from tasks.bench.plots import bars
from tasks.bench.result import Result, Row
from tasks.bench.setting import BenchSetting
from tasks.children import run_module
from turnout.errors import TurnoutError
from turnout.paths import cache
from turnout.references import from_json, to_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BENCH = "memory"
_NOTES = (
    "weights_bytes sums the tensors as they are held, bitsandbytes' scales included; measured_bytes is what the memory "
    "grew by while the model was loaded (RSS, or what PyTorch has allocated on a GPU), before the first request. 110 % "
    "of computed means that a tenth more was taken than `turnout capacity` computes for the weights.",
    "mapped_bytes of measured_bytes are pages of the model's file: the system may drop and read them again. "
    "bitsandbytes quantises from the file, so the pages of the original weights stay among them.",
    "On a CPU with AVX512-BF16, bitsandbytes packs its weights anew in the first evaluation; this is before it.",
    f"llama.cpp loads no model without a KV cache: one for {CONTEXT} tokens and its working memory are in its figures.",
)


@dataclass(frozen=True)
class Kind:
    """A format to load. `precision` is what `turnout capacity` calls it."""

    configuration: str
    format: Format
    precision: str
    quantisation: Quantisation | None = None


KINDS = (
    Kind("transformers float32", "float32", "fp32"),
    Kind("transformers bfloat16", "bfloat16", "bf16"),
    Kind("transformers float16", "float16", "fp16"),
    Kind("bitsandbytes NF4", "nf4", "nf4"),
    Kind("llama.cpp f16", "gguf", "fp16", "f16"),
    Kind("llama.cpp Q4_K_M", "gguf", "Q4_K_M", "Q4_K_M"),
)

LEFT_OUT_QUICKLY = ("float16",)
"""It takes what bfloat16 takes."""


def run(setting: BenchSetting) -> Result:
    """Load the published base in every format of `KINDS`, one after the other.

    Raises:
        TurnoutError: a process that loads it ended badly.
    """
    notes = list(_NOTES)
    if this_machine().gpus:
        setting.engines.close()  # vLLM takes most of a GPU's memory
    shapes, _ = file_shapes(Path(setting.original.path))
    rows = [_row(shapes, kind, loaded) for kind, loaded in _loads(setting, notes)]
    settings = {"base": setting.original.name, "llama_cpp_context": CONTEXT}
    return Result(BENCH, subject(setting.original), settings, rows, notes)


def _loads(setting: BenchSetting, notes: list[str]) -> Iterator[tuple[Kind, Loaded]]:
    for kind in KINDS:
        if setting.quick and kind.format in LEFT_OUT_QUICKLY:
            continue
        if kind.format == "nf4" and find_spec("bitsandbytes") is None:
            notes.append("bitsandbytes is not installed here: NF4 was not measured.")
            continue
        path = Path(setting.original.path)
        try:
            if kind.quantisation:
                path = ensure_gguf(cache(), setting.original, kind.quantisation, setting.progress)
        except TurnoutError as error:
            notes.append(f"{kind.configuration} is missing: {error.message.splitlines()[0]}")
            continue
        setting.progress(f"memory: {kind.configuration}")
        folder = setting.home.root / "bench" / "memory" / kind.configuration.replace(" ", "-")
        yield (
            kind,
            from_json(Loaded, run_module("tasks.bench.loaded", to_json(LoadJob(kind.format, str(path))), folder)),
        )


def _row(shapes: Shapes, kind: Kind, loaded: Loaded) -> Row:
    computed = weights_bytes(shapes, kind.precision)
    return {
        "configuration": kind.configuration,
        "on": loaded.on,
        "parameters": loaded.parameters,
        "computed_bytes": computed,
        "weights_bytes": loaded.weights,
        "measured_bytes": loaded.measured,
        "mapped_bytes": loaded.mapped,
        "of_computed_percent": 100 * loaded.measured / computed if computed else None,
    }


def draw(result: Result) -> "Figure | None":
    """What was computed, what the tensors hold and what was measured, side by side."""
    return bars(result.rows, ["computed_bytes", "weights_bytes", "measured_bytes"])
