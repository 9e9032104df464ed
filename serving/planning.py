"""Decides the next routes from the present ones, the log and what the replicas have ready: pure, no engine, no disk."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from registry.names import called, served_name
from serving.following import Desired
from serving.journal import Override
from serving.routes import NameRoutes, Replica, RoutedVersion, Routes, routed
from turnout.references import Base


@dataclass(frozen=True)
class Plan:
    """The routes to be, and for each name what keeps it from being served as the log says."""

    routes: Routes
    problems: dict[str, tuple[str, ...]]


def plan(
    before: Routes | None,
    desired: Mapping[str, Desired],
    replicas: Iterable[Replica],
    bases: Mapping[str, Base],
    overrides: Mapping[str, Override],
    restarted: Collection[str] = (),
) -> Plan:
    """A name moves to another version only when every replica of a pool has it ready; until then it stays as it is.
    What gets traffic already goes on while any replica has it.

    Names that `desired` says nothing of stay too, and those that were routed by a later event than it knows: another
    process of this home has read the log since. Not so for the names in `restarted`, whose log was replaced.
    """
    replicas = tuple(replicas)
    names = dict(before.names) if before else {}
    problems: dict[str, tuple[str, ...]] = {}
    for name, wanted in desired.items():
        old = names.get(name)
        if name in overrides and old and old.override == overrides[name].id:
            problems[name] = (f"the emergency rollback to v{old.champion} is not in the release log yet",)
            continue
        if old and old.event > wanted.release.generation and name not in restarted:
            end = wanted.release.generation
            told = f"v{old.champion} gets the traffic since event {old.event}; the log that was read ends at {end}"
            problems[name] = (told,)
            continue
        new, found = _route(name, wanted, old, replicas)
        if found or wanted.problems:
            problems[name] = (*wanted.problems, *found)
        if new is None or new == old:
            continue
        if old is None or new.champion != old.champion:
            names.pop(name, None)  # the latest release stands last
        names[name] = new
    used = {version.base_sha256 for on in names.values() for version in on.versions.values()}
    known = {**(before.bases if before else {}), **bases}
    used |= {each.base_sha256 for each in replicas}
    routes = Routes(
        before.generation if before else 0,
        {sha256: base for sha256, base in known.items() if sha256 in used},
        names,
        replicas,
    )
    return Plan(routes, problems)


def target(
    before: Routes | None, desired: Mapping[str, Desired], overrides: Mapping[str, Override] = MappingProxyType({})
) -> Routes:
    """What is to be loaded: the routes as they would be if every replica had everything ready."""
    names = dict(before.names) if before else {}
    for name, wanted in desired.items():
        new = _as_logged(wanted, lambda _: True)
        if new is not None and not (name in overrides and name in names):
            names.pop(name, None)
            names[name] = new
    return Routes(0, {}, names)


def less(routes: Routes, served_names: Collection[str]) -> Routes:
    """The routes without those of the served names that get no traffic."""
    spare = {each.served_name for each in routed(routes) if not each.traffic} & set(served_names)
    kept = {
        name: replace(on, versions={n: each for n, each in on.versions.items() if f"{name}-v{n}" not in spare})
        for name, on in routes.names.items()
    }
    return replace(routes, names=kept) if spare else routes


def servable(replicas: Iterable[Replica], name: str, number: int, version: RoutedVersion) -> bool:
    """Whether there is a pool of the version's base in which every replica has the version ready."""
    able = [each for each in replicas if each.base_sha256 == version.base_sha256]
    lacking = {each.pool for each in able if served_name(name, number) not in each.ready}
    return bool({each.pool for each in able} - lacking)


def overridden(on: NameRoutes, override: Override) -> NameRoutes:
    """The routes of a name after an emergency rollback: all requests go to its target."""
    return replace(on, champion=override.to, previous=None, weights={}, shadow={}, override=override.id)


def _route(
    name: str, wanted: Desired, old: NameRoutes | None, replicas: tuple[Replica, ...]
) -> tuple[NameRoutes | None, list[str]]:
    release = wanted.release
    champion = release.champion
    assert champion is not None

    def can(number: int) -> bool:
        version = wanted.versions.get(number)
        return version is not None and servable(replicas, name, number, version)

    def stays(number: int) -> bool:
        return can(number) or _still_served(name, number, old, replicas)

    held = old is not None and old.champion != champion and _still_served(name, old.champion, old, replicas)
    if champion not in wanted.versions or (not can(champion) and held):
        present = called(old.champion) if old else "nobody"
        return old, [f"v{champion} is the champion and is not ready on every replica; {present} gets the traffic"]
    arms = {**release.weights, **release.shadow}
    problems = [f"v{number} is to get traffic and is not ready on every replica" for number in arms if not can(number)]
    if not can(champion):
        problems.append(f"v{champion} is the champion and is not ready on every replica")
    return _as_logged(wanted, stays), problems


def _as_logged(wanted: Desired, can: Callable[[int], bool]) -> NameRoutes | None:
    """The routes of a name as the log has them, less the arms that cannot be served; None without the champion."""
    release, champion = wanted.release, wanted.release.champion
    if champion is None or champion not in wanted.versions:
        return None
    kept = (champion, *release.weights, *release.shadow, release.previous)
    return NameRoutes(
        champion,
        {
            str(number): wanted.versions[number]
            for number in dict.fromkeys(kept)
            if number is not None and number in wanted.versions
        },
        event=release.generation,
        previous=release.previous if release.previous in wanted.versions else None,
        weights={str(number): percent for number, percent in release.weights.items() if can(number)},
        shadow={str(number): percent for number, percent in release.shadow.items() if can(number)},
        sticky_by_key=release.schedule.get("sticky") == "key",
    )


def _still_served(name: str, number: int, old: NameRoutes | None, replicas: tuple[Replica, ...]) -> bool:
    """Whether the version gets traffic, and some replica has it ready: a replica that has just been started again is
    no reason to take it away from those that get it elsewhere."""
    if old is None or not (number == old.champion or {str(number)} & {*old.weights, *old.shadow}):
        return False
    version = old.versions.get(str(number))
    if version is None:
        return False
    pool = [each for each in replicas if each.base_sha256 == version.base_sha256]
    return any(served_name(name, number) in each.ready for each in pool)
