"""The engines that take traffic, and what each of them has ready."""

from collections.abc import Iterable
from dataclasses import replace

from serving.engine_life import settle
from serving.kinds import kind_of
from serving.placement import loaded_adapters
from serving.records import Engine, list_engines, serving_engines
from serving.restore import load_routed
from serving.routes import Replica, Routes, find_replica, read_routes, update_routes
from turnout.errors import EngineError
from turnout.paths import Home


def observe(home: Home, before: Routes | None) -> tuple[tuple[Replica, ...], list[str]]:
    """The replicas of this home, by its engines, and what is wrong with some.

    Ready is what was probed before and is still loaded. An engine that runs and does not answer in time may only be
    busy, so it keeps its place: the gateways notice when it is not well.
    """
    known = {each.id: each for each in before.replicas} if before else {}
    replicas, problems = [], []
    for found in serving_engines(home):
        engine = found if found.ready else settle(home, found)
        if engine is None:
            problems.append(f"the engine {found.id} is still starting")
            continue
        was = known.get(engine.id, describe(engine, ()))
        try:
            loaded = loaded_adapters(engine)
        except EngineError as error:
            problems.append(error.message)
            if engine.id in known:
                replicas.append(was)
            continue
        replicas.append(describe(engine, (name for name in was.ready if name in loaded)))
    return tuple(replicas), problems


def describe(engine: Engine, ready: Iterable[str]) -> Replica:
    concurrent = kind_of(engine.kind).concurrent(engine.config)
    names, place = tuple(sorted(ready)), _place(engine)
    return Replica(engine.id, engine.url, engine.base.sha256, names, concurrent, engine.kind, place)


def _place(engine: Engine) -> int:
    kinds = tuple(engine.config.engines)
    return kinds.index(engine.kind) if engine.kind in kinds else len(kinds)


def load_missing(
    home: Home, wanted: Routes, before: Routes | None, replicas: Iterable[Replica]
) -> tuple[tuple[Replica, ...], list[str]]:
    """Load what `wanted` names and a replica lacks; the replicas as they are then, and what went wrong.

    A version that this engine's build has not proven counts as ready only where it is the one that is served
    already, or where nothing is: a name is never switched to it.
    """
    engines = {engine.id: engine for engine in list_engines(home)}
    served = {f"{name}-v{on.champion}" for name, on in (before.names if before else {}).items()}
    nothing_served = {name for name in wanted.names if before is None or name not in before.names}
    after, problems = [], []
    for replica in replicas:
        engine = engines[replica.id]
        try:
            restored = load_routed(home, engine, wanted, ready=replica.ready)
        except EngineError as error:
            problems.append(error.message)
            after.append(replica)
            continue
        problems += restored.problems
        new = set(replica.ready) & set(ready_on(home, engine))
        for placed in restored.placed:
            name = placed.name.rpartition("-v")[0]
            if placed.state == "proven" or placed.name in served or name in nothing_served:
                new.add(placed.name)
            else:
                problems.append(f"{placed.name} is not proven on {engine.id} ({placed.state}): turnout run proves it")
        after.append(describe(engine, new))
    return tuple(after), problems


def mark_ready(home: Home, engine: Engine, served_name: str) -> Routes | None:
    """Note that a version is loaded and probed on an engine."""

    def change(before: Routes | None) -> Routes:
        routes = before or Routes(0)
        was = find_replica(routes, engine.id) or describe(engine, ())
        new = replace(was, ready=tuple(sorted({*was.ready, served_name})))
        others = tuple(each for each in routes.replicas if each.id != engine.id)
        return replace(routes, bases={**routes.bases, engine.base.sha256: engine.base}, replicas=(*others, new))

    return update_routes(home, change) if engine.role == "serving" else read_routes(home)


def lacks(home: Home, engine: Engine, served_name: str) -> bool:
    """Whether a version is to be loaded on an engine. One that does not answer may only be busy: then what was probed
    on it last counts."""
    if served_name not in ready_on(home, engine):
        return True
    try:
        return served_name not in loaded_adapters(engine)
    except EngineError:
        return False


def ready_on(home: Home, engine: Engine) -> tuple[str, ...]:
    """The served names that are loaded and probed on an engine, as far as the routes know."""
    replica = find_replica(read_routes(home), engine.id)
    return replica.ready if replica else ()
