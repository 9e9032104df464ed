"""`turnout bench preemption`: many users with long answers, and a KV cache that is too small for them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serving.capacity.attention import read_attention
from serving.machine import this_machine
from serving.vllm import resolve_dtype
from tasks.bench.engines import Wanted
from tasks.bench.environment import subject
from tasks.bench.load_generator import DEFINITIONS
from tasks.bench.loads import Load
from tasks.bench.measuring import Observed, observe
from tasks.bench.plots import over_time
from tasks.bench.result import Result, Row
from tasks.bench.sampling import cache_blocks
from tasks.bench.setting import BenchSetting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_AMPLE, _SCARCE = "ample cache", "scarce cache"
_BLOCK_TOKENS = 32
"""Tokens a block of the scarce cache: vLLM's default on a CPU, 128, would hold most of a request in one block."""
_SHARE = 0.4
"""Of the tokens that all requests need together, what the scarce cache holds."""


@dataclass(frozen=True)
class Shortage:
    """The arithmetic of one cache: `requests` of `need` tokens at their end each, in `blocks` of `block_tokens`."""

    requests: int
    prompt: int
    need: int
    blocks: int
    block_tokens: int

    @property
    def fit(self) -> int:
        """Tokens that the cache holds."""
        return self.blocks * self.block_tokens

    @property
    def whole(self) -> int:
        """Requests that fit at their full length."""
        return self.blocks // -(-self.need // self.block_tokens)

    @property
    def started(self) -> int:
        """Requests that fit with their prompts alone, which is when vLLM starts them."""
        return min(self.requests, self.blocks // -(-(self.prompt + 1) // self.block_tokens))

    def told(self, configuration: str, preempted: int) -> str:
        """The arithmetic in words, and whether what it predicts was seen."""
        held = (
            f"{configuration.capitalize()}: {self.blocks} blocks of {self.block_tokens} tokens hold "
            f"{self.fit:,} tokens; {self.requests} requests of {self.need} tokens need "
            f"{self.requests * self.need:,}. "
        )
        if self.whole >= self.requests:
            return held + f"All fit, so none has to be preempted: {preempted} were."
        grown = (
            f"{self.started} start, since their prompts of {self.prompt} tokens fit, but only {self.whole} fit "
            "at their full length: as answers grow, vLLM takes the blocks of the newest requests, which wait and "
            f"compute their tokens again. Preemptions seen: {preempted}."
        )
        return held + (grown if preempted else grown + " None: this engine did not come to its limit.")


def wanted(setting: BenchSetting) -> list[Wanted]:
    return list(_configurations(setting).values())


def run(setting: BenchSetting) -> Result:
    """All users at once on an ample and on a scarce KV cache, sampled from `/metrics` while the base answers."""
    load = _load(setting)
    rows: list[Row] = []
    notes = [DEFINITIONS]
    series = {}
    for configuration, asked in _configurations(setting).items():
        with setting.engines.running(asked) as engine:
            setting.progress(f"{configuration}, {load.users} users")
            blocks, block_tokens = cache_blocks(engine.url)
            seen = observe(setting, engine, setting.base.name, load)
        need = load.input_tokens + load.output_tokens
        shortage = Shortage(load.requests, load.input_tokens, need, blocks, block_tokens)
        preempted = _preempted(seen)
        rows.append(_row(configuration, shortage, seen, preempted))
        series[configuration] = _series(seen)
        notes += [*seen.notes, shortage.told(configuration, preempted)]
    settings: dict[str, Any] = {"users": load.users, "requests": load.requests, "input_tokens": load.input_tokens}
    settings |= {"output_tokens": load.output_tokens, "prefix_caching": False, "share_of_need": _SHARE}
    return Result("preemption", subject(setting.base), settings, rows, notes, series)


def draw(result: Result) -> "Figure | None":
    return over_time(result.series, ["running", "waiting", "preemptions", "kv_use"])


def figures(result: Result) -> dict[str, Any]:
    columns = ("preemptions", "most_running", "most_waiting", "highest_kv_use_percent", "requests_per_s", "p99_ms")
    return {row["configuration"]: {column: row[column] for column in columns} for row in result.rows}


def _load(setting: BenchSetting) -> Load:
    users, output = (40, 128) if setting.quick else (200, 500)
    return Load(users, users, input_tokens=32, output_tokens=output, warmups=1)


def _configurations(setting: BenchSetting) -> dict[str, Wanted]:
    load = _load(setting)
    need = load.requests * (load.input_tokens + load.output_tokens)
    plain = setting.engine().config
    sequences = max(load.users, plain.max_num_seqs or 0)
    ample: dict[str, Any] = {"max_num_seqs": sequences}
    gb = _cache_gb(setting, need)
    if not this_machine().gpus and gb > plain.kv_cache_gb:
        ample["kv_cache_gb"] = gb
    words = ("--block-size", str(_BLOCK_TOKENS), "--num-gpu-blocks-override", str(round(_SHARE * need / _BLOCK_TOKENS)))
    scarce = setting.engine(max_num_seqs=sequences, extra_args=words)
    return {_AMPLE: setting.engine(**ample), _SCARCE: scarce}


def _cache_gb(setting: BenchSetting, tokens: int) -> float:
    """A KV cache for `tokens` and half as many again, in GiB: what the last blocks of requests leave empty."""
    config = json.loads((Path(setting.base.path) / "config.json").read_text(encoding="utf-8"))
    value_bytes = 4 if resolve_dtype(setting.serving, this_machine()) == "float32" else 2
    return round(1.5 * tokens * read_attention(config).bytes_per_token(value_bytes) / 2**30, 2)


def _preempted(seen: Observed) -> int:
    """Preemptions during the load: the engine counts them from its start."""
    counts = [sample["preemptions"] for sample in seen.sampler.samples if "preemptions" in sample]
    return round(max(counts) - counts[0]) if counts else 0


def _row(configuration: str, shortage: Shortage, seen: Observed, preempted: int) -> Row:
    return {
        "configuration": configuration,
        "users": shortage.requests,
        "kv_tokens": shortage.fit,
        "preemptions": preempted,
        "most_running": round(seen.sampler.peak("running")),
        "most_waiting": round(seen.sampler.peak("waiting")),
        "highest_kv_use_percent": 100 * seen.sampler.peak("kv_use"),
        **seen.measured.row(),
    }


def _series(seen: Observed) -> list[dict[str, Any]]:
    names = ("seconds", "running", "waiting", "preemptions", "kv_use")
    first = next((sample["preemptions"] for sample in seen.sampler.samples if "preemptions" in sample), 0.0)
    rows = [{name: round(sample[name], 3) for name in names if name in sample} for sample in seen.sampler.samples]
    return [row | ({"preemptions": row["preemptions"] - first} if "preemptions" in row else {}) for row in rows]
