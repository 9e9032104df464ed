"""Puts the routed versions onto an engine: after a start, or before it takes over from another one."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from registry.names import parse_version
from serving.config import ServingConfig
from serving.placement import Placed, ensure_loaded, loaded_adapters
from serving.proofs import kept_refusal, proof_state
from serving.records import Engine
from serving.room import free_room
from serving.routes import Routed, RoutedVersion, Routes, routed
from turnout.errors import EngineError, EngineUnreachable
from turnout.paths import Home
from turnout.references import Base

LEAST_RANK = 16
"""An engine that is started before any adapter is known takes ranks up to this one."""


@dataclass(frozen=True)
class Restored:
    """What was put onto the engine; `problems` say which versions with traffic were not, and why."""

    placed: tuple[Placed, ...]
    problems: tuple[str, ...]


def load_routed(
    home: Home, engine: Engine, routes: Routes | None, *, ready: Collection[str] = (), spare: int = 0
) -> Restored:
    """Load the routed versions of the engine's base and probe them: the champions first, those without traffic as
    far as there is room. What only another kind of engine has proven is left to that.

    Args:
        ready: served names that need nothing.
        spare: so many places stay free.

    Raises:
        EngineUnreachable: the engine does not answer.
    """
    wanted = [each for each in routed(routes) if each.version.base_sha256 == engine.base.sha256]
    missing = [each for each in wanted if each.served_name not in ready]
    foreign = {each.served_name for each in missing if is_foreign(home, each.version, engine.kind)}
    problems = [_left_out(home, engine, each) for each in missing if each.served_name in foreign and each.traffic]
    missing = [each for each in missing if each.served_name not in foreign]
    if not missing:
        return Restored((), tuple(problems))
    loaded, limit = set(loaded_adapters(engine)), engine.config.max_cpu_loras - spare
    placed = []
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


def is_foreign(home: Home, version: RoutedVersion, kind: str) -> bool:
    """Whether only other kinds of engine than `kind` have proven the version: they serve it, and this one does not."""
    return proof_state(home, version.adapter_sha256, version.base_sha256, kind) == "elsewhere"


def _left_out(home: Home, engine: Engine, each: Routed) -> str:
    refusal = kept_refusal(home, each.version.adapter_sha256, engine.base.sha256, engine.build)
    why = refusal.why if refusal else "another kind of engine has proven it, turnout run proves it on this one too"
    return f"{each.served_name} gets no traffic on {engine.id}: {why}"


def least_shapes(routes: Routes | None, base: Base, config: ServingConfig) -> tuple[int, tuple[str, ...]]:
    """The rank and the modules that a new engine is started for: those that are routed, and some rank to spare."""
    rank, targets = shapes(routes, base.sha256)
    return max(rank, LEAST_RANK if config.max_lora_rank is None else 1), targets


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
