"""`turnout bench latency`: one user, at the model's own precision and with 4-bit weights."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from serving.machine import this_machine
from tasks.bench.engines import Wanted
from tasks.bench.environment import subject
from tasks.bench.load_generator import DEFINITIONS
from tasks.bench.loads import Load, Measured
from tasks.bench.measuring import described, observe
from tasks.bench.plots import bars
from tasks.bench.result import Result, Row
from tasks.bench.setting import BenchSetting
from turnout.errors import EngineError, ResourceShort

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOAD = Load(users=1, requests=10, input_tokens=32, output_tokens=200, warmups=1)
_QUICK_REQUESTS = 2
_GPU_FORMATS = {"vLLM bitsandbytes 4-bit": "bitsandbytes", "vLLM FP8": "fp8"}
"""What vLLM quantises a plain model to while it loads it; its CPU build has kernels for neither."""


def wanted(setting: BenchSetting) -> list[Wanted]:
    return [setting.engine()]


def run(setting: BenchSetting) -> Result:
    """TTFT, ITL, tokens a second and the time of 200 tokens, for each precision that an engine here can serve."""
    load = replace(_LOAD, requests=_QUICK_REQUESTS) if setting.quick else _LOAD
    rows, notes = [], [DEFINITIONS]
    for name, engine in _configurations(setting).items():
        setting.progress(f"{name}, {load.requests} answers of {load.output_tokens} tokens")
        try:
            with setting.engines.running(engine) as up:
                seen = observe(setting, up, setting.model, load)
        except (EngineError, ResourceShort) as error:
            notes.append(f"{name} is missing: {error.message.splitlines()[0]}")
            continue
        rows.append(_row(name, seen.measured))
        notes += seen.notes
    if not rows:
        raise EngineError(f"no engine could be measured: {' '.join(notes[1:])}", "See the engines' logs.")
    settings = {"users": 1, "requests": load.requests, "input_tokens": load.input_tokens}
    settings |= {"output_tokens": load.output_tokens, "prefix_caching": False}
    return Result("latency", subject(setting.base, setting.adapter), settings, rows, notes + _compared(rows))


def draw(result: Result) -> "Figure | None":
    return bars(result.rows, ["ttft_p50_ms", "itl_p50_ms", "tokens_per_s"])


def figures(result: Result) -> dict[str, Any]:
    columns = ("ttft_p50_ms", "itl_p50_ms", "tokens_per_s", "answer_p50_s")
    return {row["configuration"]: {column: row[column] for column in columns} for row in result.rows}


def _configurations(setting: BenchSetting) -> dict[str, Wanted]:
    own = setting.engine()
    found = {described(own): own}
    if this_machine().gpus:
        quantised = {name: ("--quantization", kind) for name, kind in _GPU_FORMATS.items()}
        return found | {name: setting.engine(extra_args=words) for name, words in quantised.items()}
    for quantisation in ("f16", "Q4_K_M"):
        config = setting.serving.llama_cpp.model_copy(update={"quantisation": quantisation})
        engine = setting.engine(kind="llama_cpp", llama_cpp=config)
        found[described(engine)] = engine
    return found


def _row(name: str, measured: Measured) -> Row:
    return {
        "configuration": name,
        "ttft_p50_ms": measured.ttft_ms[50],
        "ttft_p99_ms": measured.ttft_ms[99],
        "itl_p50_ms": measured.itl_ms[50],
        "itl_p99_ms": measured.itl_ms[99],
        "tpot_p50_ms": measured.tpot_ms[50],
        "tokens_per_s": measured.output_tokens_per_s,
        "answer_p50_s": measured.latency_ms[50] / 1000,
        "failed_percent": measured.failed_percent,
    }


def _compared(rows: list[Row]) -> list[str]:
    first = rows[0]
    return [
        f"{row['configuration']} gives {row['tokens_per_s'] / first['tokens_per_s']:.2f} × the tokens/s of "
        f"{first['configuration']}, its first token after {row['ttft_p50_ms'] / first['ttft_p50_ms']:.2f} × the time."
        for row in rows[1:]
    ]
