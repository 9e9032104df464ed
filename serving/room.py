"""Keeps the number of adapters that an engine has loaded within its limit."""

from collections.abc import Iterable

from registry.names import served_name
from serving.placement import loaded_adapters, unload
from serving.records import Engine
from serving.routes import Routed, Routes, read_routes, routed, update_routes, without
from turnout.errors import EngineError
from turnout.paths import Home


def free_room(home: Home, engine: Engine, name: str, number: int) -> list[str]:
    """Unload versions until version `number` of `name` fits beside the rest; returns the served names that went.

    Versions that no route names go first, then what a rollback would go to: that of `name` itself, which a release
    replaces anyway, then that of the name that was released longest ago. The routes drop what goes. Champions stay.

    Raises:
        EngineError: the champions alone fill the engine.
    """
    new, limit = served_name(name, number), engine.config.max_cpu_loras
    loaded = set(loaded_adapters(engine))
    evicted = choose(loaded, new, limit, routed(read_routes(home)), name)
    if len(loaded | {new}) - len(evicted) > limit:
        raise EngineError(
            f"the engine at {engine.url} holds {limit} adapters (serving.max_cpu_loras), and all of them "
            f"are champions: {', '.join(sorted(loaded))}. So {new} does not fit",
            f"Start it with more room: turnout down, then turnout up --set serving.max_cpu_loras={limit + 2}",
        )

    def drop(routes: Routes | None) -> Routes | None:
        return without(routes, evicted) if routes else None

    if evicted:
        update_routes(home, drop)
    for each in evicted:
        unload(engine, each)
    return evicted


def choose(loaded: set[str], new: str, limit: int, routes: Iterable[Routed], name: str) -> list[str]:
    """The served names among `loaded` that go so that at most `limit` are left with `new`, as far as any may."""
    every = list(routes)
    spare = sorted(loaded - {each.served_name for each in every})
    earlier = [each for each in reversed(every) if not each.champion]
    spare += [each.served_name for each in sorted(earlier, key=lambda each: each.name != name)]
    may_go = [each for each in spare if each in loaded and each != new]
    return may_go[: max(len(loaded | {new}) - limit, 0)]
