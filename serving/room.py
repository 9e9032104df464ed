"""Keeps the number of adapters that an engine has loaded within its limit."""

import time
from collections.abc import Collection, Iterable
from dataclasses import replace

from registry.names import served_name
from serving.gateways import in_flight, push, states
from serving.placement import loaded_adapters, unload
from serving.records import Engine
from serving.routes import Routed, Routes, read_routes, routed, update_routes
from turnout.errors import EngineError
from turnout.paths import Home

PATIENCE_S = 20.0
"""How long to wait for the requests of a version that is to go."""


def free_room(home: Home, engine: Engine, name: str, number: int) -> list[str]:
    """Unload versions until version `number` of `name` fits beside the rest; returns the served names that went.

    Versions that no route names go first, then what a rollback would go to: that of `name` itself, which a release
    replaces anyway, then that of the name that was released longest ago. Those that get traffic stay, and so does one
    that a request still uses.

    Raises:
        EngineError: what gets traffic fills the engine, or requests of what could go do not end.
    """
    new, limit = served_name(name, number), engine.config.max_cpu_loras
    loaded = set(loaded_adapters(engine))
    every = routed(read_routes(home))
    surplus = len(loaded | {new}) - limit
    if surplus <= 0:
        return []
    if len(choose(loaded, new, limit, every, name)) < surplus:
        raise EngineError(
            f"the engine at {engine.url} holds {limit} adapters (serving.max_cpu_loras), and all of them "
            f"get traffic: {', '.join(sorted(loaded))}. So {new} does not fit",
            f"Start it with more room: turnout down, then turnout up --set serving.max_cpu_loras={limit + 2}",
        )
    unused = loaded - _used(home, engine, loaded)
    evicted = choose(loaded, new, limit, every, name, prefer=unused)
    close(home, engine, evicted)
    for each in evicted:
        wait_unused(home, engine, each)
        unload(engine, each)
    return evicted


def choose(
    loaded: set[str],
    new: str,
    limit: int,
    routes: Iterable[Routed],
    name: str,
    prefer: Collection[str] = (),
) -> list[str]:
    """The served names among `loaded` that go so that at most `limit` are left with `new`, as far as any may.

    Args:
        prefer: those that go before others.
    """
    every = list(routes)
    spare = sorted(loaded - {each.served_name for each in every})
    earlier = [each for each in reversed(every) if not each.traffic]
    spare += [each.served_name for each in sorted(earlier, key=lambda each: each.name != name)]
    may_go = [each for each in spare if each in loaded and each != new]
    may_go.sort(key=lambda each: each not in prefer)
    return may_go[: max(len(loaded | {new}) - limit, 0)]


def close(home: Home, engine: Engine, served_names: Collection[str]) -> None:
    """Let no gateway send anything more to those versions on that engine."""

    def change(routes: Routes | None) -> Routes | None:
        if routes is None:
            return None
        changed = (
            replace(each, ready=tuple(name for name in each.ready if name not in served_names))
            if each.id == engine.id
            else each
            for each in routes.replicas
        )
        return replace(routes, replicas=tuple(changed))

    routes = update_routes(home, change)
    if routes:
        push(home, routes)


def _used(home: Home, engine: Engine, served_names: Collection[str]) -> set[str]:
    every = states(home).values()
    return {name for name in served_names if in_flight(every, engine.id, name)}


def wait_unused(home: Home, engine: Engine, name: str) -> None:
    """Raises EngineError where requests for a version do not end in `PATIENCE_S`."""
    deadline = time.monotonic() + PATIENCE_S
    while _used(home, engine, [name]):
        if time.monotonic() > deadline:
            raise EngineError(
                f"{name} is to make room on {engine.url}, and its requests did not end in {PATIENCE_S:.0f} s",
                "Try again when they have, or start the engine with a larger serving.max_cpu_loras.",
            )
        time.sleep(0.1)
