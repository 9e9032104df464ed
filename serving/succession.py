"""Engines that take over from others, and those that drain."""

from contextlib import suppress

from serving.config import ServingConfig
from serving.engine_life import stop_engine
from serving.engines import remember, remembered, start_engine
from serving.fit import REPLACE_IT, suits
from serving.gateways import in_flight, states
from serving.placement import loaded_adapters
from serving.records import Engine, running_engines, serving_engines, set_role
from serving.replicas import describe, ready_on
from serving.restore import is_foreign, load_routed, shape_of, shapes
from serving.routes import RoutedVersion, Routes, read_routes, routed, update_routes
from turnout.errors import EngineError
from turnout.paths import Home
from turnout.references import Base


def kinds_for(home: Home, version: RoutedVersion) -> list[str]:
    """The kinds of engine that are to serve a version, the first of `serving.engines` first: those that are up with
    its base, or with any, and have proven it. Where none has, one that says so when it is to load it."""
    first = (remembered(home) or ServingConfig()).engines
    up = [engine for engine in running_engines(home) if engine.role in ("serving", "joining") and engine.ready]
    pools = [engine for engine in up if engine.base.sha256 == version.base_sha256] or up
    found = dict.fromkeys(engine.kind for engine in pools)
    kinds = [*(kind for kind in first if kind in found), *(kind for kind in found if kind not in first)] or [first[0]]
    return [kind for kind in kinds if not is_foreign(home, version, kind)] or kinds[:1]


def fitting(home: Home, base: Base, version: RoutedVersion, kind: str) -> list[Engine]:
    """The engines with traffic of this pool that can take the version; none where one of them cannot."""
    pool = [engine for engine in serving_engines(home, base=base, kind=kind) if engine.ready]
    return pool if all(_unfit(engine, base, version) is None for engine in pool) else []


def successor_with(home: Home, base: Base, served: str, kind: str) -> Engine | None:
    """The joining engine of this pool that has a version already, and waits for its release."""
    for engine in running_engines(home):
        if engine.role == "joining" and engine.ready and engine.pool == (base.sha256, kind):
            with suppress(EngineError):
                if served in loaded_adapters(engine):
                    return engine
    return None


def successor_waits(home: Home) -> bool:
    """Whether an engine is to take over from others."""
    return any(engine.role == "joining" for engine in running_engines(home))


def start_successor(home: Home, base: Base, version: RoutedVersion, kind: str) -> Engine:
    """An engine without traffic that can take `version`, and has the champions of its pool.

    Raises:
        EngineError: `serving.mode` is not `restart`, or it cannot be had, or does not take a champion.
    """
    config = remembered(home)
    if config is None or config.mode != "restart":
        running = serving_engines(home, kind=kind)
        reason = next((why for engine in running if (why := _unfit(engine, base, version))), "no engine is up")
        raise EngineError(reason, REPLACE_IT if running else "Start it: turnout up")
    routes = read_routes(home)
    rank, targets = shapes(routes, base.sha256)
    own_rank, own_targets = shape_of(version)
    targets = tuple({*targets, *own_targets})
    engine = start_engine(home, base, config, max(rank, own_rank), kind=kind, targets=targets, beside=True)
    restored = load_routed(home, engine, routes, spare=1)
    require_champions(home, engine, routes, restored.problems)
    return engine


def require_champions(home: Home, successor: Engine, routes: Routes | None, problems: tuple[str, ...]) -> None:
    """Raises EngineError, with the successor stopped, where it has not got all champions of its pool."""
    there = loaded_adapters(successor)
    lost = [name for name in _champions(home, routes, successor) if name not in there]
    if lost:
        stop_engine(home, successor)
        raise EngineError(
            f"the new engine cannot take over {', '.join(lost)}: {'; '.join(problems)}",
            "Traffic stays where it is. Mend what is named, or use serving.mode=hot.",
        )


def take_over(home: Home, wanted: Routes) -> None:
    """Let a joining engine serve where the log asks for a version that it has and the present ones cannot take."""
    for engine in running_engines(home):
        if engine.role == "joining" and engine.ready and _is_due(home, engine, wanted):
            loaded = loaded_adapters(engine)
            replaced = serving_engines(home, base=engine.base, kind=engine.kind)
            engine = set_role(home, engine, "serving")
            remember(home, engine.config)
            _add_replica(home, engine, loaded)
            for each in replaced:
                set_role(home, each, "draining")
    _drain_unused(home, wanted)


def stop_drained(home: Home) -> None:
    """Stop the draining engines that no request uses any more."""
    draining = [engine for engine in running_engines(home) if engine.role == "draining"]
    if not draining:
        return
    every = states(home).values()
    for engine in draining:
        if in_flight(every, engine.id) == 0:
            stop_engine(home, engine)


def _is_due(home: Home, joining: Engine, wanted: Routes) -> bool:
    mine = [each for each in routed(wanted) if each.traffic and _belongs(home, each.version, joining)]
    if not mine:
        return False
    try:
        loaded = loaded_adapters(joining)
    except EngineError:
        return False
    pool = serving_engines(home, base=joining.base, kind=joining.kind)
    served = [set(ready_on(home, engine)) for engine in pool]
    unserved = [each for each in mine if not served or not all(each.served_name in ready for ready in served)]
    return bool(unserved) and all(each.served_name in loaded for each in mine)


def _drain_unused(home: Home, wanted: Routes) -> None:
    """Engines of a base that no version with traffic is on any more, while another base's engine serves, drain."""
    used = {each.version.base_sha256 for each in routed(wanted) if each.traffic}
    serving = serving_engines(home)
    if any(engine.ready and engine.base.sha256 in used for engine in serving):
        for engine in serving:
            if engine.base.sha256 not in used:
                set_role(home, engine, "draining")


def _add_replica(home: Home, engine: Engine, loaded: dict[str, str]) -> None:
    """A successor was loaded and probed before it joined, so all that it has is ready."""

    def change(before: Routes | None) -> Routes:
        routes = before or Routes(0)
        others = tuple(each for each in routes.replicas if each.pool != engine.pool)
        bases = {**routes.bases, engine.base.sha256: engine.base}
        return Routes(routes.generation, bases, routes.names, (*others, describe(engine, loaded)))

    update_routes(home, change)


def _champions(home: Home, routes: Routes | None, engine: Engine) -> list[str]:
    return [each.served_name for each in routed(routes) if each.champion and _belongs(home, each.version, engine)]


def _belongs(home: Home, version: RoutedVersion, engine: Engine) -> bool:
    return version.base_sha256 == engine.base.sha256 and not is_foreign(home, version, engine.kind)


def _unfit(engine: Engine, base: Base, version: RoutedVersion) -> str | None:
    rank, targets = shape_of(version)
    return suits(engine, base, rank, engine.config, targets)
