"""The deploy stage: an engine for the version, the version on it, and the proof that it serves what was trained."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from data.probes import render_probes
from data.rows import validation_sample
from registry.adapters import fetch
from registry.manifest import check_fits
from registry.store import connect
from registry.versions import Version
from serving.config import ServingConfig
from serving.engines import start_engine, stop_engine
from serving.fit import suits
from serving.placement import Placed, ensure_loaded, loaded_adapters
from serving.proof import Evidence
from serving.proofs import kept_proof
from serving.records import Engine, serving_engines
from serving.replicas import mark_ready
from serving.restore import load_routed, shapes
from serving.room import free_room
from serving.routes import read_routes
from serving.succession import require_champions
from tasks import progress
from tasks.bases import ensure_parity_base
from tasks.config import TrainConfig
from turnout.errors import EngineError, LoadRefused, ProofFailed
from turnout.files import exclusive
from turnout.paths import Home, home
from turnout.references import Base, Dataset, Scores


@dataclass(frozen=True)
class Served:
    """A version on an engine; losses in nats a token, None where the proof failed before they were known.

    `problem` says why the proof failed. `replaces` is the id of the engine that this one takes over from when the
    version is released; empty where there is none.
    """

    engine_id: str
    engine_url: str
    engine_start_seconds: float
    base: Base
    adapter_folder: str
    tolerance: float
    replaces: str = ""
    rows: int = 0
    tokens: int = 0
    eval_loss: float | None = None
    difference: float | None = None
    problem: str = ""


@dataclass(frozen=True)
class Place:
    """A ready engine, the seconds that its start took (0 where it ran), and the one that it takes over from."""

    engine: Engine
    seconds: float = 0.0
    replaces: Engine | None = None


def deploy(
    config: ServingConfig,
    train: TrainConfig,
    max_rows: int,
    version: Version,
    dataset: Dataset,
    scores: Scores,
    base: Base,
) -> Served:
    """Load `version` into an engine that serves its base, and prove it there before any traffic.

    `train` says how the base was quantised, which the parity base repeats.

    Raises:
        EngineError: no engine can be had for it, or the engine refuses it.
    """
    here = home()
    served_base = base
    if config.base == "parity":
        served_base = ensure_parity_base(base, double_quantisation=train.double_quantisation, progress=progress.update)
    folder = fetch(connect(here), version, here)
    check_fits(version.manifest, served_base, folder)
    place = find_place(here, served_base, config, version, folder)
    rows, nats = validation_sample(dataset, max_rows), scores.candidate.nats
    evidence = Evidence(rows, nats, lambda: render_probes(base.path), config.tolerance)
    served = Served(
        place.engine.id,
        place.engine.url,
        place.seconds,
        served_base,
        str(folder),
        config.tolerance,
        replaces=place.replaces.id if place.replaces else "",
    )
    try:
        return _with_figures(served, put(here, place, version, folder, evidence))
    except ProofFailed as error:
        return replace(served, problem=error.message)


def put(here: Home, place: Place, version: Version, folder: Path, evidence: Evidence) -> Placed:
    """Load and prove the version; a successor that cannot take it is stopped.

    Raises:
        EngineError: it does not answer, or refuses the version.
        ProofFailed: it does not serve what was trained.
    """
    try:
        free_room(here, place.engine, version.name, version.number)
        placed = ensure_loaded(
            here,
            place.engine,
            served_name=version.served_name,
            adapter_folder=folder,
            adapter_sha256=version.manifest.adapter_sha256,
            evidence=evidence,
            progress=progress.update,
        )
        with exclusive(here.lock("reconcile")):  # a pass writes what it saw ready before
            mark_ready(here, place.engine, version.served_name)
        return placed
    except LoadRefused:
        if place.replaces:
            stop_engine(here, place.engine)
        raise


def find_place(here: Home, base: Base, config: ServingConfig, version: Version, folder: Path) -> Place:
    """The engine for `version`: the running one, a new one, or with `serving.mode: restart` a successor.

    A new engine gets what is routed first. A successor is on another port, and takes over when the version is
    released; none is started where the running engine serves this version already, proven.

    Raises:
        EngineError: the running engine does not suit, or a successor does not take what is routed.
    """
    manifest = version.manifest
    engines = sorted(serving_engines(here), key=lambda engine: engine.base.sha256 != base.sha256)
    live = engines[0] if engines else None
    succeed = config.mode == "restart" and live is not None
    if live is not None and succeed and _serves(here, live, base, config, version, folder):
        return Place(live)
    routes = read_routes(here)
    if live and not succeed:
        routes = None  # nothing to take over
    rank, targets = shapes(routes, base.sha256)
    engine, seconds = _start(
        here, base, config, max(rank, manifest.rank), {*targets, *manifest.target_modules}, beside=succeed
    )
    restored = load_routed(here, engine, routes, spare=1)
    if succeed:
        require_champions(here, engine, routes, restored.problems)
    return Place(engine, seconds, live if succeed else None)


def _start(
    here: Home, base: Base, config: ServingConfig, rank: int, targets: set[str], *, beside: bool
) -> tuple[Engine, float]:
    """An engine that suits, and the seconds that its start took: 0 where it ran already."""
    began = time.monotonic()

    def report(seconds: float, line: str) -> None:
        waited.append(seconds)
        progress.update(f"engine starts, {seconds:.0f} s")

    waited: list[float] = []
    engine = start_engine(here, base, config, rank, report, targets=targets, beside=beside)
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


def _with_figures(served: Served, placed: Placed) -> Served:
    proof = placed.proof
    assert proof is not None
    progress.current().cached = not served.engine_start_seconds and not placed.proven_now
    return replace(
        served, eval_loss=proof.served_nats, difference=proof.difference, rows=proof.rows, tokens=proof.tokens
    )
