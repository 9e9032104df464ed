"""The routes that this home last served: enough to serve them again without the registry."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from registry.names import served_name
from turnout.errors import BadInput
from turnout.files import exclusive, read_state, write_json
from turnout.paths import Home
from turnout.references import Base, to_json


@dataclass(frozen=True)
class RoutedVersion:
    """`path` is the absolute folder that engines read the adapter from, `base_sha256` the base that it is served on."""

    adapter_sha256: str
    path: str
    base_sha256: str


@dataclass(frozen=True)
class NameRoutes:
    """Where the requests for one adapter name go.

    `versions` are all that stay loaded, by number: the champion, canaries, shadows and the target of the next
    rollback, `previous`. `weights` and `shadow` are percent of the name's requests by version; the champion gets
    what the weights leave. `event` is the number of the release event that says so. With `sticky_by_key` the
    client's API key decides the arm where a request carries no better key. `override` is the id of an emergency
    rollback that the log does not hold yet.
    """

    champion: int
    versions: dict[str, RoutedVersion] = field(default_factory=dict)
    event: int = 0
    previous: int | None = None
    weights: dict[str, float] = field(default_factory=dict)
    shadow: dict[str, float] = field(default_factory=dict)
    sticky_by_key: bool = False
    override: str = ""


@dataclass(frozen=True)
class Replica:
    """An engine that takes traffic. `ready` are the served names that are loaded and probed on it, `concurrent` the
    requests that it runs at once; it queues the rest. `place` is that of its kind among `serving.engines`: the first
    is asked first."""

    id: str
    url: str
    base_sha256: str
    ready: tuple[str, ...]
    concurrent: int
    kind: str = "vllm"
    place: int = 0

    @property
    def pool(self) -> tuple[str, str]:
        """As `Engine.pool`."""
        return self.base_sha256, self.kind


@dataclass(frozen=True)
class Routes:
    """Raised by one at every change, `generation` says which routes are newer.

    `bases` are those that versions are served on, by sha256; the replicas of one base and kind are a pool.
    `names` stand in the order of their latest release, as far as this home saw it.
    """

    generation: int
    bases: dict[str, Base] = field(default_factory=dict)
    names: dict[str, NameRoutes] = field(default_factory=dict)
    replicas: tuple[Replica, ...] = ()


@dataclass(frozen=True)
class Routed:
    """One routed version, under its served name. `traffic`: requests, or copies of them, go to it."""

    name: str
    served_name: str
    version: RoutedVersion
    champion: bool
    traffic: bool


def routed(routes: Routes | None) -> list[Routed]:
    """Every routed version, the one that is needed most first: champions, other arms, then what a rollback goes to;
    the latest released names first among equals."""
    every = [
        Routed(
            name,
            served_name(name, int(number)),
            version,
            champion=int(number) == on.champion,
            traffic=int(number) == on.champion or number in on.weights or number in on.shadow,
        )
        for name, on in reversed((routes.names if routes else {}).items())
        for number, version in on.versions.items()
    ]
    return sorted(every, key=lambda each: (not each.champion, not each.traffic))


def find_replica(routes: Routes | None, engine_id: str) -> Replica | None:
    return next((each for each in (routes.replicas if routes else ()) if each.id == engine_id), None)


def read_routes(home: Home) -> Routes | None:
    """The last good routes, or None where nothing was ever served, or the file is not what Turnout wrote."""
    return read_state(home.routes, Routes)


def load_routes(file: Path) -> Routes:
    """The routes in `file`, which Turnout wrote in this home or another.

    Raises:
        BadInput: there is no such file, or it holds something else.
    """
    if not file.exists():
        raise BadInput(f"there is no file of routes {file}", "A release writes one into TURNOUT_HOME/routes.json.")
    routes = read_state(file, Routes)
    if routes is None:
        raise BadInput(f"{file} cannot be read as routes", "Take a routes.json that a release wrote.")
    return routes


def update_routes(home: Home, change: Callable[[Routes | None], Routes | None]) -> Routes | None:
    """Replace the routes by what `change` makes of them, which nobody else changes meanwhile.

    The generation rises by one where that is anything new.
    """
    with exclusive(home.lock("routes")):
        before = read_routes(home)
        after = change(before)
        if after is None:
            return before
        generation = before.generation if before else 0
        if before is None or to_json(replace(after, generation=generation)) != to_json(before):
            after = replace(after, generation=generation + 1)
            write_json(home.routes, to_json(after))
            return after
        return before


def overtake(home: Home, generation: int) -> Routes | None:
    """Number the routes on disk above `generation`, which a gateway follows; None where they are not older."""
    with exclusive(home.lock("routes")):
        present = read_routes(home)
        if present is None or present.generation >= generation:
            return None
        present = replace(present, generation=generation + 1)
        write_json(home.routes, to_json(present))
        return present
