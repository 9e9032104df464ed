"""What should be served, by the release log, against what is."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from registry.aliases import read_aliases
from registry.names import called, unknown_name
from registry.reach import never_used
from registry.releases import fold, read_log
from registry.store import connect
from registry.versions import list_names
from serving.records import find_engine
from serving.routes import read_routes
from serving.stack import ServedVersion
from serving.stack import status as served_versions
from turnout.errors import RegistryUnavailable
from turnout.paths import Home

if TYPE_CHECKING:
    from mlflow import MlflowClient

Roles = dict[str, int | None]


def compare(home: Home, name: str | None) -> dict[str, Any]:
    """One row for each adapter: its champion, previous and candidate, and what is loaded where.

    Where there is no registry yet the last good routes stand in for the log; with one that is out of reach they
    do so too, and the problems say it.

    Raises:
        NotFound: there is no adapter `name`.
        RegistryUnavailable: the registry is out of reach, and `name` has no routes here.
    """
    served, unreachable = served_versions(home), ""
    try:
        if never_used(home):
            names = list(roles := _routed_roles(home, name))
        else:
            names = list_names(client := connect(home))
            roles = {each: _roles(client, each) for each in names if name in (None, each)}
    except RegistryUnavailable as error:
        names = list(roles := _routed_roles(home, name))
        if name is not None and name not in roles:
            raise
        unreachable = f"the registry is out of reach, so these are the last good routes: {error.message}"
    if name is not None and name not in roles:
        raise unknown_name(name, names)
    engine_up = find_engine(home) is not None
    adapters = [_row(home, each, roles[each], served, engine_up, unreachable) for each in sorted(roles)]
    problems = [unreachable] if unreachable else []
    if home.routes.exists() and read_routes(home) is None:
        problems.append(f"{home.routes} cannot be read: turnout up writes it anew")
    in_sync = all(adapter["in_sync"] for adapter in adapters) and bool(adapters or not problems)
    return {"in_sync": in_sync, "problems": problems, "adapters": adapters}


def _roles(client: "MlflowClient", name: str) -> Roles:
    release = fold(read_log(client, name))
    candidate = read_aliases(client, name).get("candidate")
    return {"champion": release.champion, "previous": release.previous, "candidate": candidate}


def _routed_roles(home: Home, name: str | None) -> dict[str, Roles]:
    routes = read_routes(home)
    routed = routes.names if routes else {}
    return {
        each: {"champion": on.champion, "previous": None, "candidate": None}
        for each, on in routed.items()
        if name in (None, each)
    }


def _row(
    home: Home, name: str, roles: Roles, served: list[ServedVersion], engine_up: bool, unreachable: str
) -> dict[str, Any]:
    own = [version for version in served if version.name == name]
    problems = _problems(home, name, roles["champion"], own, engine_up)
    return {
        "name": name,
        **roles,
        "in_sync": not problems,
        "served": [{key: value for key, value in asdict(version).items() if key != "name"} for version in own],
        "problems": problems + ([unreachable] if unreachable else []),
    }


def _problems(home: Home, name: str, champion: int | None, served: list[ServedVersion], engine_up: bool) -> list[str]:
    if champion is None:
        return []
    if not engine_up:
        return ["no engine is up: turnout up"]
    routes = read_routes(home)
    routed = routes.names[name].champion if routes and name in routes.names else None
    if routed != champion:
        return [f"v{champion} is the champion, and {called(routed)} gets the traffic here: turnout up"]
    version = next((each for each in served if each.version == champion), None)
    if version is None or not version.loaded:
        return [f"v{champion} is not loaded: turnout up"]
    if version.proof != "proven":
        return [f"v{champion} is loaded, its proof on this engine is {version.proof}: turnout run proves it"]
    return []
