"""`turnout up`: the engine with the champions of the release log, or of the last good routes, loaded and probed."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from registry.adapters import fetch
from registry.reach import reachable
from registry.releases import fold, read_log
from registry.store import connect
from registry.versions import Version, get_version, list_names
from serving.config import ServingConfig
from serving.routes import NameRoutes, RoutedVersion, Routes, load_routes, read_routes, write_routes
from serving.stack import up
from tasks.bases import ensure_parity_base, resolve_base
from turnout.errors import RegistryUnavailable
from turnout.files import read_json
from turnout.paths import Home
from turnout.references import Base

if TYPE_CHECKING:
    from mlflow import MlflowClient


def stand_up(
    home: Home, base_name: str, config: ServingConfig, routes_file: Path | None, update: Callable[[str], None]
) -> dict[str, Any]:
    """Bring the stack up; what runs already stays.

    Args:
        base_name: the base to serve where nothing was released yet.
        routes_file: routes to serve instead of the registry's.

    Raises:
        EngineError: the engine cannot be started, or refuses a version.
        BadInput: the routes file cannot be read.
    """
    problems: list[str] = []
    if routes_file is not None:
        write_routes(home, load_routes(routes_file))
    else:
        problems = _follow_log(home)
    routes = read_routes(home)
    base = routes.base if routes else _base(base_name, config)

    def report(seconds: float, line: str) -> None:
        update(f"engine starts, {seconds:.0f} s: {line[-60:]}")

    stack = up(home, config, base, report)
    return {
        "gateway": None,
        "engine": stack.engine.url,
        "pids": {"engine": stack.engine.pid, "gateway": None},
        "base": stack.engine.base.name,
        "loaded": [placed.name for placed in stack.placed],
        "problems": problems,
    }


def remembered(home: Home) -> ServingConfig | None:
    """The settings that the engine of this home was last started with; None before the first start."""
    kept = read_json(home.serving)
    try:
        return ServingConfig.model_validate(kept) if kept else None
    except ValidationError:
        return None  # written by another version of Turnout


def _base(name: str, config: ServingConfig) -> Base:
    base = resolve_base(name)
    return ensure_parity_base(base) if config.base == "parity" else base


def _follow_log(home: Home) -> list[str]:
    """Bring the routes on disk in line with the release log; with no registry they stay as they are."""
    routes = read_routes(home)
    if routes is None:
        return []
    try:
        reachable(home)
        client = connect(home)
        names = {name: _routes_of(home, client, name) for name in list_names(client)}
    except RegistryUnavailable as error:
        return [f"The registry is out of reach; serving the last good routes. {error.message}"]
    found = {name: on for name, on in names.items() if on and name in routes.names}
    if found != routes.names:
        write_routes(home, Routes(routes.generation + 1, routes.base, {**routes.names, **found}))
    return []


def _routes_of(home: Home, client: "MlflowClient", name: str) -> NameRoutes | None:
    release = fold(read_log(client, name))
    if release.champion is None:
        return None
    wanted = [number for number in (release.champion, release.previous) if number is not None]
    versions = {str(number): _routed(home, client, get_version(client, name, number)) for number in wanted}
    return NameRoutes(release.champion, versions)


def _routed(home: Home, client: "MlflowClient", version: Version) -> RoutedVersion:
    return RoutedVersion(version.manifest.adapter_sha256, str(fetch(client, version, home)))
