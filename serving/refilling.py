"""Keeps pools full: starts engines again that died, and those that a pool lacks."""

from serving.engines import launch_replica, remembered
from serving.kinds import kind_of
from serving.records import Engine, list_engines, remove_record, serving_engines
from turnout.errors import TurnoutError
from turnout.paths import Home


def revive(home: Home) -> list[str]:
    """Start the engines again that died while they served; one that died while it started is left for a person."""
    problems = []
    for engine in list_engines(home):
        if engine.alive or engine.role != "serving":
            continue
        if not engine.ready:
            problems.append(f"the engine {engine.id} ended before it was ready, see {engine.log}: turnout up")
            continue
        try:
            _start_again(home, engine)
            problems.append(f"the engine {engine.id} died and is started again")
        except TurnoutError as error:
            problems.append(f"the engine {engine.id} died and cannot be started again: {error.message}")
    return problems


def _start_again(home: Home, engine: Engine) -> None:
    config, port = engine.config, int(engine.url.rpartition(":")[2])
    # `turnout up` may be doing the same.
    wanted = kind_of(engine.kind).replicas(remembered(home) or config)
    rank, kind, targets = engine.max_lora_rank, engine.kind, engine.targets
    new = launch_replica(home, engine.base, config, rank, kind=kind, targets=targets, port=port, at_most=wanted)
    if new.id != engine.id:
        remove_record(home, engine.id)


def refill(home: Home) -> list[str]:
    """Start what a pool lacks of its replicas, one at a time: a successor comes alone.

    Not while an engine drains, which still has its memory, or rests, which comes back, nor beside one that died or is
    starting.
    """
    problems = []
    engines = list_engines(home)
    if any(engine.role in ("draining", "resting") for engine in engines):
        return []
    for model in {engine.pool: engine for engine in serving_engines(home)}.values():
        pool = [engine for engine in engines if engine.role == "serving" and engine.pool == model.pool]
        if not all(engine.alive and engine.ready for engine in pool):
            continue
        wanted = kind_of(model.kind).replicas(model.config)
        if len(pool) >= wanted:
            continue
        rank, kind, targets = model.max_lora_rank, model.kind, model.targets
        try:
            launch_replica(home, model.base, model.config, rank, kind=kind, targets=targets, at_most=wanted)
        except TurnoutError as error:
            problems.append(
                f"of {wanted} {model.kind} engines for {model.base.name} {len(pool)} serve: {error.message}"
            )
    return problems
