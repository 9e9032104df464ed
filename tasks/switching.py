"""Whether a version still lies on its engine, and how it leaves its engines again."""

from contextlib import suppress

from registry.versions import Version
from serving.engine_life import stop_engine
from serving.placement import loaded_adapters, unload
from serving.records import Engine, list_engines
from serving.routes import read_routes, routed
from tasks.deploying import Served
from turnout.errors import EngineError
from turnout.paths import Home, home


def require_loaded(version: Version, served: Served) -> None:
    """Raises EngineError where the version's engine is gone, or the version is not on it."""
    engine = _engine(home(), served.engine_id)
    loaded = loaded_adapters(engine) if engine else {}
    if version.served_name not in loaded:
        raise EngineError(
            f"{version.served_name} is no longer loaded on the engine {served.engine_id}, where it was proven",
            "Run the same command again: it loads and probes it.",
        )


def withdraw(here: Home, version: Version, served: Served, *, keep: bool) -> None:
    """Stop the engines that were started to take over with this version; else unload it, unless `keep` or routed."""
    stays = keep or version.served_name in {each.served_name for each in routed(read_routes(here))}
    beside = [(other.engine_id, other.replaces) for other in served.others]
    for engine_id, replaces in ((served.engine_id, served.replaces), *beside):
        engine = _engine(here, engine_id)
        if engine is None:
            continue
        if replaces:
            stop_engine(here, engine)
        elif not stays:
            with suppress(EngineError):  # an engine that is gone has nothing loaded
                unload(engine, version.served_name)


def _engine(here: Home, engine_id: str) -> Engine | None:
    return next((engine for engine in list_engines(here) if engine.id == engine_id and engine.alive), None)
