"""Finds the engine that a version is deployed on: the running one, a new one, or a successor."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from registry.versions import Version
from serving.config import ServingConfig
from serving.engines import start_engine
from serving.fit import suits
from serving.placement import loaded_adapters
from serving.proofs import kept_proof
from serving.records import Engine, serving_engines
from serving.restore import load_routed, shapes
from serving.routes import read_routes
from serving.succession import require_champions
from tasks import progress
from turnout.errors import EngineError
from turnout.paths import Home
from turnout.references import Base


@dataclass(frozen=True)
class Place:
    """A ready engine, the seconds that its start took (0 where it ran), and the one that it takes over from."""

    engine: Engine
    seconds: float = 0.0
    replaces: Engine | None = None


def find_place(
    here: Home, base: Base, config: ServingConfig, version: Version, folder: Path, kind: str | None = None
) -> Place:
    """The engine for `version`: the running one, a new one, or with `serving.mode: restart` a successor.

    It is of `kind`, or of the first of `serving.engines`. A new engine gets what is routed first. A successor is on
    another port, and takes over when the version is released; none is started where the running engine serves this
    version already, proven.

    Raises:
        EngineError: the running engine does not suit, or a successor does not take what is routed.
    """
    manifest = version.manifest
    kind = kind or config.engines[0]
    engines = sorted(serving_engines(here, kind=kind), key=lambda engine: engine.base.sha256 != base.sha256)
    live = engines[0] if engines else None
    succeed = config.mode == "restart" and live is not None
    if live is not None and succeed and _serves(here, live, base, config, version, folder):
        return Place(live)
    routes = read_routes(here)
    if live and not succeed:
        routes = None  # nothing to take over
    rank, targets = shapes(routes, base.sha256)
    rank, targets = max(rank, manifest.rank), tuple({*targets, *manifest.target_modules})
    engine, seconds = _start(here, base, config, rank, kind=kind, targets=targets, beside=succeed)
    restored = load_routed(here, engine, routes, spare=1)
    if succeed:
        require_champions(here, engine, routes, restored.problems)
    return Place(engine, seconds, live if succeed else None)


def _start(here: Home, base: Base, config: ServingConfig, rank: int, **how: Any) -> tuple[Engine, float]:
    """An engine that suits, and the seconds that its start took: 0 where it ran already."""
    began = time.monotonic()

    def report(seconds: float, line: str) -> None:
        waited.append(seconds)
        progress.update(f"engine starts, {seconds:.0f} s")

    waited: list[float] = []
    engine = start_engine(here, base, config, rank, report, **how)
    return engine, round(time.monotonic() - began, 2) if waited else 0.0


def _serves(here: Home, engine: Engine, base: Base, config: ServingConfig, version: Version, folder: Path) -> bool:
    """Whether `engine` has this very version loaded, and proven it."""
    manifest = version.manifest
    if suits(engine, base, manifest.rank, config, manifest.target_modules) is not None:
        return False
    try:
        loaded = loaded_adapters(engine)
    except EngineError:
        return False
    proven = kept_proof(here, manifest.adapter_sha256, base.sha256, engine.build) is not None
    return proven and loaded.get(version.served_name) == str(folder)
