"""`bench ladder`: size, memory, speed and quality of each format of the weights, on llama.cpp and on vLLM."""

from collections.abc import Iterator, Sequence
from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any

from serving.guard.memory import engine_memory
from serving.machine import this_machine
from tasks.bench.environment import subject
from tasks.bench.ladder_steps import REFERENCE, Step, steps, vllm_steps
from tasks.bench.load_generator import DEFINITIONS
from tasks.bench.loads import Load
from tasks.bench.measuring import observe
from tasks.bench.quality import Quality, equal_percent, measure_quality, validation_rows
from tasks.bench.result import Result, Row
from tasks.bench.sampling import gpu_use
from tasks.bench.setting import BenchSetting
from turnout.errors import EngineError
from turnout.pages import plot_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from data.rows import ScoredRow
    from tasks.bench.engines import Wanted

BENCH = "ladder"
PROMPT_TOKENS = 128
OUTPUT_TOKENS, QUICK_OUTPUT_TOKENS = 512, 64
SEVERAL = 4
ROWS, QUICK_ROWS = 64, 6
ANSWER_TOKENS, QUICK_ANSWER_TOKENS = 96, 32
LOSS_LIMIT_NATS = 0.02
"""How far the served loss on llama.cpp in f16 may be from that on vLLM, of the same weights."""

_NOTES = (
    "tokens_per_s counts generated tokens, the prompts' share of the time included; prefill_tokens_per_s is "
    f"{PROMPT_TOKENS} over the time to the first token, one user. 95 % of another's means 95 tokens where it made 100.",
    "loss_nats is the served loss on the preset's validation rows, the same ones everywhere; loss_over_reference_nats "
    f"is how much higher it is than that of {REFERENCE}. 95 % has no meaning there: compare the differences.",
    "equal_answers_percent: 95 % means that 95 of 100 greedy answers are, letter by letter, those of "
    f"{REFERENCE}. A different answer need not be a worse one.",
    "memory_bytes is what the engine's processes held (PSS) when it was ready, KV cache and libraries included; "
    "size_bytes is the weights' file on the disk.",
)


def run(setting: BenchSetting) -> Result:
    """Measure every step of the ladder on the same rows, prompts and numbers of users.

    Raises:
        EngineError: an engine that must start does not.
        DataError: the preset's rows cannot be used.
    """
    setting.progress("ladder: preparing rows")
    count = QUICK_ROWS if setting.quick else ROWS
    rows = validation_rows(setting.data, setting.base, count)
    notes = list(_NOTES)
    measured = dict(_measure_all(setting, rows, notes))
    figures = [_with_reference(row, quality, measured) for row, quality in measured.values()]
    notes += [*size_notes(figures), *loss_notes(figures, setting.base.name), DEFINITIONS]
    settings = {
        "prompt_tokens": PROMPT_TOKENS,
        "output_tokens": _output_tokens(setting),
        "users": [1, SEVERAL],
        "rows": len(rows),
        "answer_tokens": _answer_tokens(setting),
        "max_model_len": setting.serving.max_model_len,
        "llama_cpp": setting.serving.llama_cpp.model_dump(mode="json", exclude={"quantisation", "replicas"}),
    }
    return Result(BENCH, subject(setting.base, setting.adapter), settings, figures, notes)


def wanted(setting: BenchSetting) -> "list[Wanted]":
    return [step.wanted for step in vllm_steps(setting)]


def _measure_all(
    setting: BenchSetting, rows: "Sequence[ScoredRow]", notes: list[str]
) -> Iterator[tuple[str, tuple[Row, Quality]]]:
    if not this_machine().gpus:
        setting.engines.prepare(wanted(setting))
    for step in steps(setting):
        try:
            yield step.configuration, _measure(setting, step, rows, notes)
        except EngineError as error:
            if not step.optional:
                raise
            notes.append(f"{step.configuration} was not measured: {error.message.splitlines()[0]:.300}")


def _measure(setting: BenchSetting, step: Step, rows: "Sequence[ScoredRow]", notes: list[str]) -> tuple[Row, Quality]:
    def progress(text: str) -> None:
        setting.progress(f"ladder: {step.configuration}: {text}")

    model = setting.adapter.name if setting.adapter else step.wanted.base.name
    with setting.engines.running(step.wanted) as engine:
        memory = engine_memory(engine).total
        gpu = gpu_use().get("gpu_memory_bytes") if step.wanted.kind == "vllm" else None
        quality = measure_quality(engine.url, model, rows, _answer_tokens(setting), progress)
        row: Row = {
            "configuration": step.configuration,
            "base": step.wanted.base.name,
            "size_bytes": step.size_bytes,
            "memory_bytes": memory,
            **({"gpu_memory_bytes": gpu} if gpu else {}),
        }
        for users in (1, SEVERAL):
            progress(f"{users} at a time")
            requests = users if setting.quick else 2 * users
            load = Load(users, requests, PROMPT_TOKENS, _output_tokens(setting), seed=users)
            seen = observe(setting, engine, model, load)
            measured = seen.measured
            notes += [f"{step.configuration}: {warning}" for warning in seen.notes]
            if users == 1:
                row["prefill_tokens_per_s"] = PROMPT_TOKENS * 1000 / measured.ttft_ms[50]
                row["tokens_per_s"] = measured.output_tokens_per_s
            else:
                row[f"tokens_at_{users}_users_per_s"] = measured.output_tokens_per_s
    return row, quality


def _with_reference(row: Row, quality: Quality, measured: dict[str, tuple[Row, Quality]]) -> Row:
    _, reference = measured[REFERENCE]
    return row | {
        "loss_nats": quality.nats,
        "loss_over_reference_nats": quality.nats - reference.nats,
        "equal_answers_percent": equal_percent(quality.answers, reference.answers),
    }


def size_notes(rows: Sequence[Row]) -> list[str]:
    """Whether each llama.cpp format is smaller than the one before."""
    ladder = [row for row in rows if row["configuration"].startswith("llama.cpp")]
    wrong = [
        f"{after['configuration']} ({after['size_bytes']:,} bytes) is not smaller than {before['configuration']} "
        f"({before['size_bytes']:,} bytes)."
        for before, after in pairwise(ladder)
        if after["size_bytes"] >= before["size_bytes"]
    ]
    return wrong or ["Each llama.cpp format is smaller than the one before it."]


def loss_notes(rows: Sequence[Row], base_name: str) -> list[str]:
    """How far the loss of the same weights on vLLM is from that on llama.cpp in f16, and how many answers are equal."""
    same = (row for row in rows if row["configuration"].startswith("vLLM") and row["base"] == base_name)
    row = next(same, None)
    if row is None:
        return []
    distance = abs(row["loss_over_reference_nats"])
    verdict = "within" if distance <= LOSS_LIMIT_NATS else "above"
    return [
        f"|loss on {REFERENCE} − on {row['configuration']}| is {distance:.4f} nats, {verdict} the limit of "
        f"{LOSS_LIMIT_NATS}; {row['equal_answers_percent']:.0f} % of their greedy answers are equal."
    ]


def _output_tokens(setting: BenchSetting) -> int:
    return QUICK_OUTPUT_TOKENS if setting.quick else OUTPUT_TOKENS


def _answer_tokens(setting: BenchSetting) -> int:
    return QUICK_ANSWER_TOKENS if setting.quick else ANSWER_TOKENS


def draw(result: Result) -> "Figure":
    """Loss over size, and the tokens a second of one user and of several."""
    from matplotlib.figure import Figure

    with plot_style():
        fig = Figure(figsize=(9, 3.6))
        quality, speed = fig.subplots(1, 2)
        for row, marker in zip(result.rows, cycle("os^vDPX*<>"), strict=False):
            name = row["configuration"]
            colour = "tab:blue" if name.startswith("llama.cpp") else "tab:orange"
            quality.plot(row["size_bytes"] / 1e6, row["loss_nats"], marker, color=colour, alpha=0.8, label=name)
        quality.set(xlabel="size on disk, MB", ylabel="served loss, nats a token")
        quality.legend(fontsize=7)
        _speed_bars(speed, result.rows)
    return fig


def _speed_bars(axes: Any, rows: Sequence[Row]) -> None:
    several = f"tokens_at_{SEVERAL}_users_per_s"
    for offset, (key, name) in enumerate((("tokens_per_s", "1 user"), (several, f"{SEVERAL} users"))):
        axes.barh([index + offset * 0.4 for index in range(len(rows))], [row[key] for row in rows], 0.38, label=name)
    axes.set_yticks([index + 0.2 for index in range(len(rows))], [row["configuration"] for row in rows], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("tokens/s")
    axes.legend()
