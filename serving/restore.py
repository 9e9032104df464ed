"""Puts the routed versions onto an engine: after a start, or before it takes over from another one."""

import json
from dataclasses import dataclass
from pathlib import Path

from registry.names import parse_version
from serving.placement import Placed, ensure_loaded
from serving.records import Engine
from serving.room import free_room
from serving.routes import Routes, routed
from turnout.errors import LoadRefused, ProofFailed
from turnout.paths import Home


@dataclass(frozen=True)
class Restored:
    """What was put onto the engine; `problems` say which champions were not, or which version was refused, and why."""

    placed: tuple[Placed, ...]
    problems: tuple[str, ...]


def load_routed(home: Home, engine: Engine, routes: Routes | None, *, spare: int = 0) -> Restored:
    """Load the routed versions and probe them: the champions first, earlier ones as far as there is room.

    Args:
        spare: so many places stay free.

    Raises:
        EngineError: the engine does not answer.
    """
    placed, problems = [], []
    limit = engine.config.max_cpu_loras - spare
    for position, each in enumerate(routed(routes)):
        if position >= limit:
            if each.champion:
                problems.append(
                    f"{each.served_name} finds no room: serving.max_cpu_loras={engine.config.max_cpu_loras}"
                )
            continue
        try:
            free_room(home, engine, each.name, parse_version(each.name, each.served_name))
            placed.append(
                ensure_loaded(
                    home,
                    engine,
                    served_name=each.served_name,
                    adapter_folder=Path(each.version.path),
                    adapter_sha256=each.version.adapter_sha256,
                )
            )
        except (LoadRefused, ProofFailed) as error:
            problems.append(f"{each.served_name} is not served: {error.message}")
    return Restored(tuple(placed), tuple(problems))


def shapes(routes: Routes | None) -> tuple[int, tuple[str, ...]]:
    """The highest rank among the routed adapters, 1 without any, and the modules that they change.

    One whose files cannot be read does not count: loading it says what is wrong.
    """
    rank = 1
    targets: set[str] = set()
    for each in routed(routes):
        try:
            config = json.loads((Path(each.version.path) / "adapter_config.json").read_text(encoding="utf-8"))
            rank = max(rank, int(config["r"]))
            targets.update(map(str, config["target_modules"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return rank, tuple(sorted(targets))
