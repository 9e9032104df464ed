"""What should be served, by the release log, against what is."""

from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from registry.aliases import read_aliases
from registry.names import called, unknown_name
from registry.reach import never_used
from registry.releases import fold, read_log
from registry.store import connect
from registry.versions import list_names
from serving.admin_calls import get
from serving.control import gateway_urls, reconciler_url
from serving.gateway.records import config_file
from serving.gateways import states
from serving.records import serving_engines
from serving.routes import NameRoutes, Routes, read_routes
from serving.served import ServedVersion, served_versions, told_versions
from serving.tokens import admin_token
from turnout.errors import RegistryUnavailable, TurnoutError
from turnout.paths import Home
from turnout.references import from_json

if TYPE_CHECKING:
    from mlflow import MlflowClient


@dataclass(frozen=True)
class Roles:
    """What the log says of a name."""

    champion: int | None
    previous: int | None = None
    candidate: int | None = None
    weights: dict[str, float] | None = None
    shadow: dict[str, float] | None = None


@dataclass(frozen=True)
class Scene:
    """What is there to compare with: the routes, what serves, and what the reconciler finds wrong, by name."""

    home: Home
    routes: Routes | None
    served: list[ServedVersion]
    engine_up: bool
    reported: dict[str, list[str]]
    unreachable: str = ""


def compare(home: Home, name: str | None) -> dict[str, Any]:
    """One row for each adapter: its champion, previous and candidate, and what is loaded where.

    Where there is no registry yet the last good routes stand in for the log; with one that is out of reach they
    do so too, and the problems say it.

    Raises:
        NotFound: there is no adapter `name`.
        RegistryUnavailable: the registry is out of reach, and `name` has no routes here.
    """
    elsewhere, unreachable = _elsewhere(home), ""
    routes = elsewhere or read_routes(home)
    try:
        if never_used(home):
            names = list(roles := _routed_roles(routes, name))
        else:
            names = list_names(client := connect(home))
            roles = {each: _roles(client, each) for each in names if name in (None, each)}
    except RegistryUnavailable as error:
        names = list(roles := _routed_roles(routes, name))
        if name is not None and name not in roles:
            raise
        unreachable = f"the registry is out of reach, so these are the last good routes: {error.message}"
    if name is not None and name not in roles:
        raise unknown_name(name, names)
    reported = _reported(home)
    served = told_versions(elsewhere) if elsewhere else served_versions(home, routes)
    engine_up = bool(elsewhere.replicas if elsewhere else serving_engines(home))
    scene = Scene(home, routes, served, engine_up, reported, unreachable)
    adapters = [_row(scene, each, roles[each]) for each in sorted(roles)]
    problems = [*([unreachable] if unreachable else []), *_process_problems(home, routes), *reported.get("", ())]
    if home.routes.exists() and routes is None:
        problems.append(f"{home.routes} cannot be read: turnout up writes it anew")
    in_sync = all(adapter["in_sync"] for adapter in adapters) and bool(adapters or not problems)
    return {"in_sync": in_sync, "problems": problems, "adapters": adapters}


def _roles(client: "MlflowClient", name: str) -> Roles:
    release = fold(read_log(client, name))
    candidate = read_aliases(client, name).get("candidate")
    weights, shadow = ({str(n): percent for n, percent in arms.items()} for arms in (release.weights, release.shadow))
    return Roles(release.champion, release.previous, candidate, weights, shadow)


def _routed_roles(routes: Routes | None, name: str | None) -> dict[str, Roles]:
    return {
        each: Roles(on.champion, on.previous, None, on.weights, on.shadow)
        for each, on in (routes.names if routes else {}).items()
        if name in (None, each)
    }


def _elsewhere(home: Home) -> Routes | None:
    """The routes of the first of TURNOUT_GATEWAYS that tells them, where this home serves nothing itself."""
    for url in [] if serving_engines(home) else gateway_urls():
        with suppress(TurnoutError, ValueError):
            return from_json(Routes, get(f"{url}/admin/routes", admin_token(home), 3.0))
    return None


def _reported(home: Home) -> dict[str, list[str]]:
    """What the reconciler's last pass found wrong, by name."""
    url = reconciler_url(home)
    try:
        return get(f"{url}/admin/state", admin_token(home), 3.0, ("problems",))["problems"] if url else {}
    except TurnoutError:
        return {}


def _process_problems(home: Home, routes: Routes | None) -> list[str]:
    """Parts of the stack that are missing, or workers that do not follow yet."""
    if not config_file(home).exists():
        return []
    problems = [] if reconciler_url(home) else ["the reconciler does not run: turnout up"]
    found = states(home)
    if not found:
        problems.append("no gateway worker runs: turnout up")
    generation = routes.generation if routes else 0
    behind = [worker for worker, state in found.items() if state is None or state["generation"] < generation]
    return problems + ([f"not at generation {generation} yet: {', '.join(behind)}"] if behind else [])


def _row(scene: Scene, name: str, roles: Roles) -> dict[str, Any]:
    own = [version for version in scene.served if version.name == name]
    problems = _problems(scene, name, roles, own)
    told = [each for each in (*_left_out(roles, own), *scene.reported.get(name, ())) if each not in problems]
    shown = {"champion": roles.champion, "previous": roles.previous, "candidate": roles.candidate}
    return {
        "name": name,
        **shown,
        "weights": roles.weights or {},
        "shadow": roles.shadow or {},
        "in_sync": not problems,
        "served": [{key: value for key, value in asdict(version).items() if key != "name"} for version in own],
        "problems": problems + told + ([scene.unreachable] if scene.unreachable else []),
    }


def _problems(scene: Scene, name: str, roles: Roles, served: list[ServedVersion]) -> list[str]:
    champion = roles.champion
    if champion is None:
        return []
    if not scene.engine_up:
        return ["no engine is up: turnout up"]
    on = scene.routes.names.get(name) if scene.routes else None
    if on is None or on.champion != champion:
        routed = called(on.champion if on else None)
        return [f"v{champion} is the champion, and {routed} gets the traffic here: turnout up"]
    problems = _unloaded(champion, served) or _unproven(champion, served)
    if (on.weights, on.shadow) != (roles.weights, roles.shadow) and not scene.unreachable:
        problems.append(f"the release log shares the requests as {_shares(roles)}, the routes as {_shares(on)}")
    return problems


def _unloaded(champion: int, served: list[ServedVersion]) -> list[str]:
    rows = _serving_rows(champion, served)
    lacking = [each.replica for each in rows if not each.loaded]
    if rows and not lacking:
        return []
    return [f"v{champion} is not loaded{' on ' + ', '.join(lacking) if lacking else ''}: turnout up"]


def _serving_rows(champion: int, served: list[ServedVersion]) -> list[ServedVersion]:
    """Those of the replicas that are to serve it: what only another kind of engine has proven is left to that."""
    rows = [each for each in served if each.version == champion]
    return [each for each in rows if not each.problem] or rows


def _left_out(roles: Roles, served: list[ServedVersion]) -> list[str]:
    """Why some replicas have no traffic for what others serve."""
    taking = {roles.champion, *map(int, {**(roles.weights or {}), **(roles.shadow or {})})}
    rows = [each for each in served if each.problem and each.version in taking]
    return [f"v{each.version} gets no traffic on {each.replica}: {each.problem}" for each in rows]


def _unproven(champion: int, served: list[ServedVersion]) -> list[str]:
    proofs = {each.proof for each in _serving_rows(champion, served)} - {"proven", "unknown"}
    by = {"stale": "the reconciler proves it again (serving.reprove), or turnout run does"}
    return [
        f"v{champion} is loaded, its proof on this engine is {proof}: {by.get(proof, 'turnout run proves it')}"
        for proof in proofs
    ]


def _shares(arms: Roles | NameRoutes) -> str:
    shares = {**(arms.weights or {}), **(arms.shadow or {})}
    return ", ".join(f"v{number} {percent:g} %" for number, percent in shares.items()) or "champion only"
