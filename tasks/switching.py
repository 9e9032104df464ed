"""Brings this home's routes and engines in line with a release, or with a refusal."""

from contextlib import suppress
from typing import TYPE_CHECKING

from registry.names import served_name
from registry.releases import fold, read_log
from registry.versions import Version, get_version
from serving.engines import remember, stop_engine
from serving.placement import loaded_adapters, unload
from serving.records import Engine, list_engines
from serving.routes import NameRoutes, RoutedVersion, Routes, read_routes, routed, update_routes
from tasks.deploying import Served
from turnout.errors import ArtifactDamaged, EngineError, NotFound
from turnout.paths import Home, home

if TYPE_CHECKING:
    from mlflow import MlflowClient


def require_loaded(version: Version, served: Served) -> dict[str, str]:
    """Served name → folder of what is on the version's engine.

    Raises:
        EngineError: the engine is gone, or the version is not on it.
    """
    engine = _engine(home(), served.engine_id)
    loaded = loaded_adapters(engine) if engine else {}
    if version.served_name not in loaded:
        raise EngineError(
            f"{version.served_name} is no longer loaded on the engine {served.engine_id}, where it was proven",
            "Run the same command again: it loads and probes it.",
        )
    return loaded


def switch_over(here: Home, client: "MlflowClient", version: Version, served: Served, loaded: dict[str, str]) -> None:
    """Route `version`'s name to it, and stop the engine that its own replaces.

    Args:
        loaded: what is on its engine; the champion before stays routed only if it is.
    """
    release = fold(read_log(client, version.name))
    if release.champion != version.number:
        return  # somebody released after us, and brings the routes in line
    versions = {str(version.number): RoutedVersion(version.manifest.adapter_sha256, served.adapter_folder)}
    if previous := _previous(client, version.name, release.previous, loaded):
        versions[str(release.previous)] = previous

    def change(routes: Routes | None) -> Routes:
        kept = dict(routes.names) if routes and routes.base.sha256 == served.base.sha256 else {}
        new = NameRoutes(version.number, versions)
        if kept.get(version.name) != new:
            kept.pop(version.name, None)  # the latest release stands last
        if served.replaces:
            kept = {name: _only(loaded, name, on) for name, on in kept.items()}
        return Routes(routes.generation if routes else 0, served.base, {**kept, version.name: new})

    update_routes(here, change)
    replaced, engine = _engine(here, served.replaces), _engine(here, served.engine_id)
    if engine and replaced:
        remember(here, engine)
        stop_engine(here, replaced)


def withdraw(here: Home, version: Version, served: Served, *, keep: bool) -> None:
    """Stop the engine if it was started to take over with this version; else unload that, unless `keep` or routed."""
    engine = _engine(here, served.engine_id)
    if engine is None:
        return
    if served.replaces:
        stop_engine(here, engine)
    elif not keep and version.served_name not in {each.served_name for each in routed(read_routes(here))}:
        with suppress(EngineError):  # an engine that is gone has nothing loaded
            unload(engine, version.served_name)


def _engine(here: Home, engine_id: str) -> Engine | None:
    return next((engine for engine in list_engines(here) if engine.id == engine_id and engine.alive), None)


def _previous(client: "MlflowClient", name: str, number: int | None, loaded: dict[str, str]) -> RoutedVersion | None:
    """The champion before, where it is loaded and can be read."""
    if number is None:
        return None
    try:
        version = get_version(client, name, number)
    except (NotFound, ArtifactDamaged):
        return None
    folder = loaded.get(version.served_name)
    return RoutedVersion(version.manifest.adapter_sha256, folder) if folder else None


def _only(loaded: dict[str, str], name: str, on: NameRoutes) -> NameRoutes:
    """The routes of a name less what its new engine has not loaded."""
    return NameRoutes(
        on.champion,
        {n: v for n, v in on.versions.items() if int(n) == on.champion or served_name(name, int(n)) in loaded},
    )
