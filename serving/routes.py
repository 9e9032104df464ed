"""The routes that this home last served: enough to serve them again without the registry."""

from dataclasses import dataclass, field
from json import JSONDecodeError
from pathlib import Path

from pydantic import ValidationError

from turnout.errors import BadInput
from turnout.files import read_json, write_json
from turnout.paths import Home
from turnout.references import Base, from_json, to_json


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
    """Raised by one at every change, `generation` says which routes are newer."""

    generation: int
    base: Base
    names: dict[str, NameRoutes] = field(default_factory=dict)


def read_routes(home: Home) -> Routes | None:
    """The last good routes, or None where nothing was ever served.

    Raises:
        BadInput: the file is not what Turnout wrote.
    """
    return load_routes(home.routes) if home.routes.exists() else None


def load_routes(file: Path) -> Routes:
    """The routes in `file`, which Turnout wrote in this home or another.

    Raises:
        BadInput: there is no such file, or it holds something else.
    """
    try:
        value = read_json(file)
        if value is None:
            raise BadInput(f"there is no file of routes {file}", "A release writes one into TURNOUT_HOME/routes.json.")
        return from_json(Routes, value)
    except (ValidationError, UnicodeDecodeError, JSONDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise BadInput(
            f"{file} cannot be read as routes: {reason}", "Remove it; the next release writes it anew."
        ) from error


def write_routes(home: Home, routes: Routes) -> None:
    write_json(home.routes, to_json(routes))
