"""Puts the routed versions onto an engine: after a start, or before it takes over from another one."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from registry.names import parse_version
from serving.placement import Placed, ensure_loaded, loaded_adapters
from serving.records import Engine
from serving.room import free_room
from serving.routes import RoutedVersion, Routes, routed
from turnout.errors import EngineError, EngineUnreachable
from turnout.paths import Home


@dataclass(frozen=True)
class Restored:
    """What was put onto the engine; `problems` say which versions with traffic were not, and why."""

    placed: tuple[Placed, ...]
    problems: tuple[str, ...]


def load_routed(
    home: Home, engine: Engine, routes: Routes | None, *, ready: Collection[str] = (), spare: int = 0
) -> Restored:
    """Load the routed versions of the engine's base and probe them: the champions first, those without traffic as
    far as there is room.

    Args:
        ready: served names that need nothing.
        spare: so many places stay free.

    Raises:
        EngineUnreachable: the engine does not answer.
    """
    wanted = [each for each in routed(routes) if each.version.base_sha256 == engine.base.sha256]
    missing = [each for each in wanted if each.served_name not in ready]
    if not missing:
        return Restored((), ())
    loaded, limit = set(loaded_adapters(engine)), engine.config.max_cpu_loras - spare
    placed, problems = [], []
    for each in missing:
        full = len(loaded | {each.served_name}) > limit
        if full and not each.traffic:
            continue
        try:
            if full and spare:
                raise EngineError(f"it finds no room: serving.max_cpu_loras={engine.config.max_cpu_loras}")
            number = parse_version(each.name, each.served_name)
            loaded = (loaded - set(free_room(home, engine, each.name, number))) | {each.served_name}
            placed.append(load_version(home, engine, each.served_name, each.version))
        except EngineUnreachable:
            raise
        except EngineError as error:
            problems.append(f"{each.served_name} is not served: {error.message}")
    return Restored(tuple(placed), tuple(problems))


def load_version(home: Home, engine: Engine, served_name: str, version: RoutedVersion) -> Placed:
    """Load a version and probe it, as far as it was proven on the engine's build.

    Raises:
        EngineError: the engine does not answer, or refuses it.
        ProofFailed: it does not answer as when it was proven.
    """
    return ensure_loaded(
        home,
        engine,
        served_name=served_name,
        adapter_folder=Path(version.path),
        adapter_sha256=version.adapter_sha256,
    )


def shapes(routes: Routes | None, base_sha256: str | None = None) -> tuple[int, tuple[str, ...]]:
    """The highest rank among the routed adapters (of one base), 1 without any, and the modules that they change."""
    rank = 1
    targets: set[str] = set()
    for each in routed(routes):
        if base_sha256 in (None, each.version.base_sha256):
            own_rank, own_targets = shape_of(each.version)
            rank = max(rank, own_rank)
            targets.update(own_targets)
    return rank, tuple(sorted(targets))


def shape_of(version: RoutedVersion) -> tuple[int, tuple[str, ...]]:
    """An adapter's rank and target modules; one whose files cannot be read has none: loading it says what is wrong."""
    try:
        config = json.loads((Path(version.path) / "adapter_config.json").read_text(encoding="utf-8"))
        return int(config["r"]), tuple(map(str, config["target_modules"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 1, ()
