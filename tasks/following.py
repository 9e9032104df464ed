"""Builds this home's routes from the release log: what a fresh home, or a killed release, has not got."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from registry.adapters import fetch
from registry.reach import never_used
from registry.releases import fold, read_log
from registry.store import connect
from registry.versions import Version, get_version, list_names
from serving.config import ServingConfig
from serving.records import find_engine
from serving.routes import NameRoutes, RoutedVersion, Routes, read_routes, update_routes
from tasks.bases import BUNDLED, ensure_parity_base, resolve_base
from tasks.bundled import ID as BUNDLED_ID
from turnout.errors import ArtifactDamaged, NotFound, RegistryUnavailable, TurnoutError
from turnout.paths import Home
from turnout.references import Base

if TYPE_CHECKING:
    from mlflow import MlflowClient


@dataclass(frozen=True)
class Found:
    """What the log says of one name, and the base that its champion is served on."""

    on: NameRoutes
    base: Base


def follow_log(home: Home, base_name: str, config: ServingConfig) -> list[str]:
    """Bring the routes on disk in line with the release log; returns what stands in the way of some of it.

    Args:
        base_name: where to look first for a champion's base.
        config: says whether champions whose release did not note it are served on the parity base.
    """
    if never_used(home):
        return []
    problems: list[str] = []
    try:
        client = connect(home)
        found = {}
        for name in list_names(client):
            try:
                each = _find(home, client, name, base_name, config, problems)
            except RegistryUnavailable:
                raise
            except TurnoutError as error:
                problems.append(f"{name} stays as it was served last: {error.message}")
                continue
            if each:
                found[name] = each
    except RegistryUnavailable as error:
        return [f"The registry is out of reach; serving the last good routes. {error.message}"]
    if found:
        _write(home, found, problems)
    return problems


def _write(home: Home, found: dict[str, Found], problems: list[str]) -> None:
    base = _choose_base(read_routes(home), found.values())

    def change(routes: Routes | None) -> Routes:
        kept = dict(routes.names) if routes and routes.base.sha256 == base.sha256 else {}
        new = {name: each.on for name, each in found.items() if each.base.sha256 == base.sha256}
        return Routes(routes.generation if routes else 0, base, {**kept, **new})

    update_routes(home, change)
    problems += [
        f"{name} is served on {each.base.name}, and the engine of this home on {base.name}: use another TURNOUT_HOME"
        for name, each in found.items()
        if each.base.sha256 != base.sha256
    ]


def _choose_base(routes: Routes | None, found: Iterable[Found]) -> Base:
    """The base that is routed already, if a champion is on it; else the one with most champions."""
    bases = {each.base.sha256: each.base for each in found}
    if routes and routes.base.sha256 in bases:
        return bases[routes.base.sha256]
    return bases[Counter(each.base.sha256 for each in found).most_common(1)[0][0]]


def _find(
    home: Home, client: "MlflowClient", name: str, base_name: str, config: ServingConfig, problems: list[str]
) -> Found | None:
    release = fold(read_log(client, name))
    if release.champion is None:
        return None
    champion = get_version(client, name, release.champion)
    versions = {str(champion.number): _routed(home, client, champion)}
    base = _base_of(home, champion, base_name, config)
    if release.previous is not None:
        try:
            versions[str(release.previous)] = _routed(home, client, get_version(client, name, release.previous))
        except (NotFound, ArtifactDamaged) as error:
            problems.append(f"{name} cannot be rolled back to v{release.previous}: {error.message}")
    return Found(NameRoutes(release.champion, versions), base)


def _routed(home: Home, client: "MlflowClient", version: Version) -> RoutedVersion:
    return RoutedVersion(version.manifest.adapter_sha256, str(fetch(client, version, home)))


def _base_of(home: Home, champion: Version, base_name: str, config: ServingConfig) -> Base:
    """The base that `champion` was released on: one that this home knows, or the one that its manifest names.

    Raises:
        NotFound: it cannot be found here under that name.
    """
    routes, engine, manifest = read_routes(home), find_engine(home), champion.manifest
    noted = champion.tags.get("served_base_sha256")
    for known in filter(None, (routes.base if routes else None, engine.base if engine else None)):
        if Path(known.path).is_dir() and known.sha256 == noted:
            return known
    original = _original(manifest.base, manifest.base_sha256, base_name)
    parity = champion.tags["served_base"] != original.name if "served_base" in champion.tags else None
    if not (config.base == "parity" if parity is None else parity):
        return original
    base = ensure_parity_base(original)
    return base if noted in (None, base.sha256) else ensure_parity_base(original, double_quantisation=False)


def _original(base_id: str, sha256: str, base_name: str) -> Base:
    """The base `base_id` with these weights, by the name that a preset gives, or by its id."""
    names = [name for name in (base_name, BUNDLED, base_id) if _may_be(name, base_id)]
    for name in dict.fromkeys(names):
        try:
            base = resolve_base(name)
        except (NotFound, ValueError):
            continue
        if base.sha256 == sha256:
            return base
    raise NotFound(
        f"its base {base_id} ({sha256[:12]}) is not here (looked for {', '.join(names) or 'nothing'}): "
        "give a preset whose `base` says where it lies, turnout up -c PRESET",
    )


def _may_be(name: str, base_id: str) -> bool:
    """Whether `resolve_base(name)` may have that id; nothing is made or fetched to find out."""
    return base_id == (BUNDLED_ID if name == BUNDLED else name) or Path(name).expanduser().name == base_id
