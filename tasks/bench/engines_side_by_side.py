"""`bench engines`: transformers, vLLM and llama.cpp side by side on one machine, one after the other in one run."""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from serving.guard.memory import engine_memory
from serving.machine import this_machine
from tasks.bench.engines import Wanted
from tasks.bench.environment import subject
from tasks.bench.load_generator import DEFINITIONS
from tasks.bench.loads import Load
from tasks.bench.measuring import described, observe
from tasks.bench.plots import by_users
from tasks.bench.prices import Prices, against, with_cost
from tasks.bench.result import Result, Row
from tasks.bench.sampling import gpu_use
from tasks.bench.setting import BenchSetting
from tasks.bench.transformers_baseline import Baseline, BaselineJob, BaselineRequests, BaselineRound
from tasks.children import run_module, said
from turnout.errors import EngineError, ResourceShort
from turnout.references import from_json, to_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BENCH = "engines"
USERS, QUICK_USERS = (1, 8, 32), (1, 8)
PROMPT_TOKENS = 128
OUTPUT_TOKENS, QUICK_OUTPUT_TOKENS = 128, 32
GOAL = 15
"""vLLM's tokens a second over the baseline's, at 32 users on a GPU, that the article reports."""
PLAIN, BATCHED = "transformers, one at a time", "transformers, batched"


def run(setting: BenchSetting) -> Result:
    """Answer the same number of requests, of the same lengths, on each engine at several numbers of users.

    An engine that does not start is left out, and the notes say why.

    Raises:
        TurnoutError: the baseline's process ended badly.
    """
    users, tokens, prices = _users(setting), _output_tokens(setting), setting.prices
    baseline = _baseline(setting, users, tokens)
    notes = _notes(setting, prices, baseline)
    rows = _baseline_rows(baseline, users, tokens)
    for wanted in (setting.engine(), setting.engine(kind="llama_cpp")):
        try:
            rows += _engine_rows(setting, wanted, users, tokens, notes)
        except (EngineError, ResourceShort) as error:
            notes.append(f"{described(wanted)} is missing: {error.message.splitlines()[0]}")
    rows = [with_cost(row, prices) for row in rows]
    rows = [against(PLAIN, row, rows) for row in rows]
    notes += _ratio_notes(rows, max(users))
    settings = {
        "users": list(users),
        "prompt_tokens": PROMPT_TOKENS,
        "output_tokens": tokens,
        "requests_a_user": 1,
        "gpu_price_per_hour": prices.gpu_per_hour,
        "cpu_price_per_hour": prices.cpu_per_hour,
        "llama_cpp": setting.serving.llama_cpp.model_dump(mode="json", exclude={"replicas"}),
    }
    return Result(BENCH, subject(setting.base, setting.adapter), settings, rows, notes)


def wanted(setting: BenchSetting) -> list[Wanted]:
    return [setting.engine()]


def _users(setting: BenchSetting) -> tuple[int, ...]:
    if setting.users != BenchSetting.users:  # somebody chose them
        return setting.users
    return QUICK_USERS if setting.quick else USERS


def _output_tokens(setting: BenchSetting) -> int:
    return QUICK_OUTPUT_TOKENS if setting.quick else OUTPUT_TOKENS


def _baseline(setting: BenchSetting, users: Sequence[int], tokens: int) -> Baseline:
    if this_machine().gpus:
        setting.engines.close()  # vLLM takes most of a GPU's memory
    folder = setting.home.root / "bench" / "transformers"
    rounds = [BaselineRequests(random_prompts(setting, count), batched) for batched in (False, True) for count in users]
    job = BaselineJob(
        base_path=setting.base.path,
        adapter_path=str(setting.adapter.folder) if setting.adapter else None,
        rounds=tuple(rounds),
        max_tokens=tokens,
        folder=str(folder),
    )
    answer = run_module(
        "tasks.bench.transformers_baseline",
        to_json(job),
        folder,
        on_poll=lambda: setting.progress(f"engines: {said(folder) or 'transformers starts'}"),
    )
    return from_json(Baseline, answer)


def random_prompts(setting: BenchSetting, count: int) -> tuple[tuple[int, ...], ...]:
    """`count` different prompts of random tokens, as the load generator sends them to engines."""
    from data.tokens import load_tokenizer

    tokenizer = load_tokenizer(setting.base.path)
    plain = sorted(set(range(tokenizer.vocab_size)) - set(tokenizer.all_special_ids))
    choose = random.Random(count)  # noqa: S311  nothing secret
    return tuple(tuple(choose.choices(plain, k=PROMPT_TOKENS)) for _ in range(count))


def _baseline_rows(baseline: Baseline, users: Sequence[int], tokens: int) -> list[Row]:
    named = [(name, count) for name in (PLAIN, BATCHED) for count in users]
    return [
        {
            "configuration": name,
            "users": count,
            "on": "GPU" if baseline.device != "cpu" else "CPU",
            **round_figures(measured),
            "memory_bytes": baseline.memory_bytes,
            **({"gpu_memory_bytes": baseline.gpu_bytes} if baseline.gpu_bytes else {}),
        }
        for (name, count), measured in zip(named, baseline.rounds, strict=True)
    ]


def round_figures(measured: BaselineRound) -> Row:
    """The figures of a round as the load generator gives them for an engine."""
    import numpy as np

    requests = len(measured.latencies_s)
    return {
        "requests_per_s": requests / measured.seconds,
        "tokens_per_s": measured.tokens / measured.seconds,
        "p50_ms": 1000 * float(np.percentile(measured.latencies_s, 50)),
        "p95_ms": 1000 * float(np.percentile(measured.latencies_s, 95)),
    }


def _engine_rows(
    setting: BenchSetting, wanted: Wanted, users: Sequence[int], tokens: int, notes: list[str]
) -> list[Row]:
    name, rows = described(wanted), []
    with setting.engines.running(wanted) as engine:
        memory = engine_memory(engine).total
        on_gpu = bool(this_machine().gpus) and not engine.computes_on.startswith("cpu")
        setting.load.measure(engine.url, setting.model, engine.base, Load(1, 1, PROMPT_TOKENS, tokens, seed=0))
        for count in users:
            setting.progress(f"engines: {name}, {count} users")
            load = Load(count, count, PROMPT_TOKENS, tokens, seed=count)
            seen = observe(setting, engine, setting.model, load)
            notes += [f"{name}: {note}" for note in seen.notes]
            figures = seen.measured.row()
            row: Row = {"configuration": name, "users": count, "on": "GPU" if on_gpu else "CPU"}
            row |= {key: figures[key] for key in ("requests_per_s", "tokens_per_s", "p50_ms", "p95_ms")}
            gpu = gpu_use().get("gpu_memory_bytes") if on_gpu else None
            rows.append(row | {"memory_bytes": memory} | ({"gpu_memory_bytes": gpu} if gpu else {}))
    return rows


def _ratio_notes(rows: Sequence[Row], users: int) -> list[str]:
    at_most = {row["configuration"]: row["tokens_per_s"] for row in rows if row["users"] == users}
    plain, batched = at_most.pop(PLAIN), at_most.pop(BATCHED)
    return [
        f"At {users} users {name} made {speed / plain:.1f} × the tokens a second of transformers answering one at a "
        f"time, and {speed / batched:.1f} × those of one batch of all. The article's goal: vLLM {GOAL} ×, on a "
        "GPU at 32 users."
        for name, speed in at_most.items()
    ]


def _notes(setting: BenchSetting, prices: Prices, baseline: Baseline) -> list[str]:
    return [
        f"All requests come at once, one of each user: {PROMPT_TOKENS} random prompt tokens, "
        f"{_output_tokens(setting)} answer tokens. {DEFINITIONS}",
        f"transformers computes in {baseline.dtype}. '{PLAIN}' makes requests wait for each other, which their latency "
        f"includes; '{BATCHED}' is kinder to it than a server could be: all requests are there and equally long.",
        "memory_bytes is what the process or the engine held when it was ready; engines keep a KV cache in it.",
        f"Costs: ${prices.gpu_per_hour} an hour for a row on a GPU, ${prices.cpu_per_hour} for one on CPUs. The "
        "usual ones are an A100's and 32 cores' on AWS in the article on XGEN 1.0: give your own.",
        "cost_saved_percent and times_transformers are against the plain baseline at as many users.",
    ]


def draw(result: Result) -> "Figure | None":
    return by_users(result.rows, ["tokens_per_s", "p95_ms"])


def figures(result: Result) -> dict[str, Any]:
    columns = ("tokens_per_s", "p95_ms", "times_transformers", "cost_per_1k_requests_usd", "cost_saved_percent")
    return {
        f"{row['configuration']}, {row['users']} users": {column: row[column] for column in columns}
        for row in result.rows
    }
