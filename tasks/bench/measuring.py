"""One load on one engine: its figures, what the engine took meanwhile, and what would spoil them."""

from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from serving.machine import this_machine
from serving.records import Engine
from serving.vllm import resolve_dtype
from tasks.bench.engines import Wanted
from tasks.bench.loads import Load, Measured
from tasks.bench.sampling import Sampler, read_gauges
from tasks.bench.setting import BenchSetting

_SHARED = 0.2
"""Of the cores, in other processes' hands: above it, an engine's figures are not its own."""


@dataclass(frozen=True)
class Observed:
    """`notes` are warnings for the reader."""

    measured: Measured
    sampler: Sampler
    notes: tuple[str, ...]


def observe(
    setting: BenchSetting, engine: Engine, model: str, load: Load, every_s: float = 0.5, url: str | None = None
) -> Observed:
    """Put `load` on `engine`, asking for `model` there or at the `url` before it, and watch the engine meanwhile.

    Raises:
        EngineError: no request succeeded.
    """
    setting.load.wait_ready()
    before = read_gauges(engine.url)
    with Sampler(engine, every_s) as sampler:
        measured = setting.load.measure(url or engine.url, model, engine.base, load)
    cached = _cached(before, read_gauges(engine.url), load)
    shared = disturbed(sampler.usage(), measured.client_cores, this_machine().cores, load)
    return Observed(measured, sampler, (*measured.warnings(load), *cached, *shared))


def described(wanted: Wanted) -> str:
    """The engine's kind and the format that it computes in, as a configuration is called in tables."""
    if wanted.kind == "llama_cpp":
        return f"llama.cpp {wanted.config.llama_cpp.quantisation}"
    dtype = resolve_dtype(wanted.config, this_machine())
    return "vLLM" if dtype == "auto" else f"vLLM {dtype}"


def disturbed(usage: Mapping[str, float], client_cores: float, cores: int, load: Load) -> list[str]:
    """A warning where neither the engine nor the load generator, but something else took much of the CPUs."""
    if psutil.cpu_count() != cores:  # the host's use is that of cores which are not this container's, too
        return []
    others = (usage["host_cpu_percent"] - usage["engine_cpu_percent"]) / 100 * cores - client_cores
    if others < _SHARED * cores:
        return []
    return [
        f"At {load.users} users other processes took {others:.1f} of {cores} cores meanwhile: its figures are worse "
        "than on a quiet machine. Measure again."
    ]


def _cached(before: dict[str, float], after: dict[str, float], load: Load) -> list[str]:
    """A warning where vLLM took prompts from its prefix cache: other users' prompts would not be there."""
    hits = after.get("prefix_hits", 0.0) - before.get("prefix_hits", 0.0)
    asked = after.get("prefix_queries", 0.0) - before.get("prefix_queries", 0.0)
    if hits <= 0:
        return []
    return [
        f"At {load.users} users the prefix cache answered {hits:.0f} of {asked:.0f} prompt tokens: TTFT and throughput "
        "are better than with prompts of different users. Leave --enable-prefix-caching out of serving.extra_args."
    ]
