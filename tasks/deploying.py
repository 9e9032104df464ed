"""The deploy stage: an engine for the version, the version on it, and the proof that it serves what was trained."""

import time
from dataclasses import dataclass

from data.probes import render_probes
from data.rows import validation_sample
from registry.adapters import fetch
from registry.manifest import check_fits
from registry.store import connect
from registry.versions import Version
from serving.config import ServingConfig
from serving.engines import start_engine, suits
from serving.placement import ensure_loaded
from serving.proof import Evidence
from serving.records import Engine, list_engines
from serving.room import free_room
from serving.routes import read_routes
from tasks import progress
from tasks.bases import ensure_parity_base
from tasks.config import TrainConfig
from turnout.errors import EngineError, ProofFailed
from turnout.files import write_json
from turnout.paths import Home, home
from turnout.references import Base, Dataset, Scores


@dataclass(frozen=True)
class Served:
    """A version on an engine; losses in nats a token, None where the proof failed before they were known.

    `problem` says why the proof failed; the version is off the engine again then.
    """

    engine_id: str
    engine_url: str
    engine_start_seconds: float
    base: Base
    adapter_folder: str
    tolerance: float
    rows: int = 0
    tokens: int = 0
    eval_loss: float | None = None
    difference: float | None = None
    problem: str = ""


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
    engine, seconds = engine_for(here, served_base, config, version.manifest.rank)
    remember(here, config)
    free_room(here, engine, version.served_name)
    served = Served(engine.id, engine.url, seconds, served_base, str(folder), config.tolerance)

    def evidence() -> Evidence:
        rows = validation_sample(dataset, max_rows)
        return Evidence(rows, scores.candidate.nats, render_probes(base.path), config.tolerance)

    try:
        placed = ensure_loaded(
            here,
            engine,
            served_name=version.served_name,
            adapter_folder=folder,
            adapter_sha256=version.manifest.adapter_sha256,
            evidence=evidence,
            progress=progress.update,
        )
    except ProofFailed as error:
        return Served(**{**vars(served), "problem": error.message})
    proof = placed.proof
    assert proof is not None
    figures = {
        "eval_loss": proof.served_nats,
        "difference": proof.difference,
        "rows": proof.rows,
        "tokens": proof.tokens,
    }
    if not seconds and not placed.proven_now:
        progress.current().cached = True
    return Served(**{**vars(served), **figures})


def engine_for(here: Home, base: Base, config: ServingConfig, rank: int) -> tuple[Engine, float]:
    """A ready engine for adapters of `rank` on `base`, and the seconds that its start took (0 where it ran).

    With `serving.mode: restart` an engine that does not suit gets a successor on another port, which takes over
    when the version is released.
    """
    started = time.monotonic()

    def report(seconds: float, line: str) -> None:
        progress.update(f"engine starts, {seconds:.0f} s: {line[-60:]}")

    running = [engine for engine in list_engines(here) if engine.alive]
    fit = next((engine for engine in running if engine.ready and suits(engine, base, rank) is None), None)
    if fit is not None:
        return fit, 0.0
    if running and config.mode == "restart":
        require_no_others(here, base)
    engine = start_engine(here, base, config, rank, report, beside=config.mode == "restart")
    return engine, round(time.monotonic() - started, 2)


def require_no_others(here: Home, base: Base) -> None:
    """Raises EngineError when adapters of another base would lose their engine to this one."""
    routes = read_routes(here)
    if routes and routes.names and routes.base.sha256 != base.sha256:
        raise EngineError(
            f"the running engine serves {', '.join(sorted(routes.names))} on {routes.base.name}; "
            f"replacing it by one with {base.name} would take them off",
            "Use another TURNOUT_HOME (and serving.port) for the other base.",
        )


def remember(here: Home, config: ServingConfig) -> None:
    """Keep the engine's settings, so that `turnout up` starts it the same way."""
    write_json(here.serving, config.model_dump(mode="json"))
