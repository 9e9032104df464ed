"""Follows the release logs: what each name is to be served as, with its versions' files and bases."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from registry.adapters import fetch
from registry.reach import never_used, reachable
from registry.releases import Release, fold, read_log
from registry.store import connect
from registry.versions import Version, get_version, list_names
from serving.journal import settle_overrides
from serving.records import list_engines
from serving.routes import RoutedVersion, read_routes
from turnout.errors import NotFound, RegistryUnavailable, TurnoutError
from turnout.paths import Home
from turnout.references import Base

if TYPE_CHECKING:
    from mlflow import MlflowClient

BaseFinder = Callable[[Version], Base]
"""Finds the base that a version was released on, where this home does not know it yet."""


@dataclass(frozen=True)
class Desired:
    """What the log says of one name. `versions` are those of its champion, arms and rollback target that can be had."""

    release: Release
    versions: dict[int, RoutedVersion] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


class Follower:
    """Reads the logs of all names, each time only what is new, and fetches the versions that they name."""

    def __init__(self, home: Home, find_base: BaseFinder | None = None) -> None:
        self.home = home
        self.bases: dict[str, Base] = {}
        self._find_base = find_base
        self._client: MlflowClient | None = None
        self._releases: dict[str, Release] = {}
        self._last: dict[str, str] = {}
        self._routed: dict[tuple[str, int], RoutedVersion] = {}
        self._lock = threading.Lock()

    @property
    def client(self) -> "MlflowClient":
        """Raises RegistryUnavailable, within seconds, when the registry is out of reach."""
        if self._client is None:
            self._client = connect(self.home)
        else:
            reachable(self.home)
        return self._client

    def follow(self, only: str | None = None) -> dict[str, Desired]:
        """What every name with a champion is to be served as; with `only`, that name alone.

        Raises:
            RegistryUnavailable: MLflow did not answer.
        """
        if never_used(self.home):
            return {}
        with self._lock:
            client = self.client
            names = list_names(client) if only is None else [only]
            found = {name: self._read(client, name) for name in names}
        return {name: desired for name, desired in found.items() if desired.release.champion is not None}

    def routed_version(self, name: str, number: int) -> RoutedVersion:
        """Fetch a version's files and find its base.

        Raises:
            NotFound: no such version, or its base is not known here.
            ArtifactDamaged: its files are not what was registered.
            RegistryUnavailable: MLflow did not answer.
        """
        known = self._routed.get((name, number))
        if known and known.base_sha256 in self.bases and Path(known.path).is_dir():
            return known
        version = get_version(self.client, name, number)
        base = self._base_of(version)
        folder = fetch(self.client, version, self.home)
        self.bases[base.sha256] = base
        self._routed[name, number] = RoutedVersion(version.manifest.adapter_sha256, str(folder), base.sha256)
        return self._routed[name, number]

    def _read(self, client: "MlflowClient", name: str) -> Desired:
        problems = settle_overrides(client, self.home, name)
        release = self._read_log(client, name)
        versions = {}
        for number in _wanted(release):
            try:
                versions[number] = self.routed_version(name, number)
            except RegistryUnavailable:
                raise
            except TurnoutError as error:
                problems.append(f"{name} v{number} cannot be served: {error.message}")
        return Desired(release, versions, tuple(problems))

    def _read_log(self, client: "MlflowClient", name: str) -> Release:
        """What the whole log says, reading only what is new: from the last known event on, which must still be there.
        A registry that was replaced, or restored from a backup, is read from the start."""
        known = self._releases.get(name, Release())
        events = read_log(client, name, after=max(known.head - 1, 0))
        if known.head and not (events and events[0].id == self._last[name]):
            known, events = Release(), read_log(client, name)
        self._releases[name] = release = fold((each for each in events if each.number > known.head), known)
        if events:
            self._last[name] = events[-1].id
        return release

    def _base_of(self, version: Version) -> Base:
        noted = version.tags.get("served_base_sha256")
        routes = read_routes(self.home)
        known = [*self.bases.values(), *(routes.bases.values() if routes else ())]
        known += [engine.base for engine in list_engines(self.home)]
        for base in known:
            if noted == base.sha256 and Path(base.path).is_dir():
                return base
        if self._find_base is None:
            raise NotFound(
                f"the base of {version.served_name}, {version.manifest.base}, is not known to this home",
                "Start its engine: turnout up -c PRESET, with a preset whose `base` says where it lies.",
            )
        return self._find_base(version)


def _wanted(release: Release) -> list[int]:
    numbers = [release.champion, *release.weights, *release.shadow, release.previous]
    return [number for number in dict.fromkeys(numbers) if number is not None]
