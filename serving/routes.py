"""The routes that this home last served: enough to serve them again without the registry."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from registry.names import served_name
from turnout.errors import BadInput
from turnout.files import exclusive, read_state, write_json
from turnout.paths import Home
from turnout.references import Base, to_json


@dataclass(frozen=True)
class RoutedVersion:
    """`path` is the absolute folder that engines read the adapter from."""

    adapter_sha256: str
    path: str


@dataclass(frozen=True)
class NameRoutes:
    """The champion of one adapter name, and the versions of it that stay loaded."""

    champion: int
    versions: dict[str, RoutedVersion] = field(default_factory=dict)


@dataclass(frozen=True)
class Routes:
    """Raised by one at every change, `generation` says which routes are newer.

    `names` stand in the order of their latest release, as far as this home saw it.
    """

    generation: int
    base: Base
    names: dict[str, NameRoutes] = field(default_factory=dict)


@dataclass(frozen=True)
class Routed:
    """One routed version, under its served name."""

    name: str
    served_name: str
    version: RoutedVersion
    champion: bool


def routed(routes: Routes | None) -> list[Routed]:
    """Every routed version, the one that is needed most first: champions, then the latest released names'."""
    every = [
        Routed(name, served_name(name, int(number)), version, int(number) == on.champion)
        for name, on in reversed((routes.names if routes else {}).items())
        for number, version in on.versions.items()
    ]
    return sorted(every, key=lambda each: not each.champion)


def without(routes: Routes, served_names: Collection[str]) -> Routes:
    """The routes less those versions."""
    names = {
        name: replace(
            on, versions={n: v for n, v in on.versions.items() if served_name(name, int(n)) not in served_names}
        )
        for name, on in routes.names.items()
    }
    return replace(routes, names=names)


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
