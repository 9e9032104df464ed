"""The deploy stage: an engine for the version, the version on it, and the proof that it serves what was trained."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from data.probes import render_probes
from data.rows import validation_sample
from registry.adapters import fetch
from registry.manifest import check_fits
from registry.store import connect
from registry.versions import Version
from registry.weights import check_weights
from serving.config import ProveOn, ServingConfig
from serving.engine_life import stop_engine
from serving.evidence import Evidence
from serving.placement import Placed, ensure_loaded
from serving.replicas import mark_ready
from serving.room import free_room
from tasks import progress
from tasks.bases import ensure_parity_base
from tasks.config import ScoreConfig, TrainConfig
from tasks.placing import Place, find_place
from tasks.questions import questions
from turnout.digests import adapter_files
from turnout.errors import LoadRefused, ProofFailed, TurnoutError
from turnout.files import exclusive
from turnout.paths import Home, home
from turnout.references import Answer, Base, Dataset, Scores


@dataclass(frozen=True)
class ServedBeside:
    """A version on an engine of another kind than the first; as `Served`. `problem` says why that serves it not."""

    kind: str
    engine_id: str = ""
    replaces: str = ""
    rows: int = 0
    tokens: int = 0
    eval_loss: float | None = None
    difference: float | None = None
    problem: str = ""


@dataclass(frozen=True)
class Served:
    """A version on an engine; losses in nats a token, None where the proof failed before they were known.

    `problem` says why the proof failed, or why the version was not even loaded. `replaces` is the id of the engine that
    this one takes over from when the version is released; empty where there is none. `others` are the version's places
    on the other kinds of engine in `serving.engines`.
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
    answers: tuple[Answer, ...] = ()
    others: tuple[ServedBeside, ...] = ()

    @property
    def stop_rate(self) -> float | None:
        """The share of the answers that ended by themselves; None where there are none."""
        stopped = [answer.finish_reason == "stop" for answer in self.answers]
        return sum(stopped) / len(stopped) if stopped else None


def deploy(
    config: ServingConfig,
    train: TrainConfig,
    score: ScoreConfig,
    version: Version,
    dataset: Dataset,
    scores: Scores,
    base: Base,
) -> Served:
    """Load `version` into an engine that serves its base, and prove it there before any traffic.

    `train` says how the base was quantised, which the parity base repeats. The first of `serving.engines` decides;
    what another kind makes of a version that this one has proven is noted.

    Raises:
        ArtifactDamaged: the registry no longer holds what was registered.
        EngineError: no engine can be had for it, or it does not answer.
    """
    here = home()
    served_base = base
    if config.base == "parity":
        served_base = ensure_parity_base(base, double_quantisation=train.double_quantisation, progress=progress.update)
    folder = fetch(connect(here), version, here)
    place = find_place(here, served_base, config, version, folder)
    rows, nats = validation_sample(dataset, score.max_rows), scores.candidate.nats
    probes = cache(lambda: render_probes(base.path))
    evidence = Evidence(rows, nats, probes, config.tolerance, questions(rows, score))
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
        check_fits(version.manifest, served_base, folder)
        check_weights(adapter_files(folder)[1])
        served = _with_figures(served, put(here, place, version, folder, evidence, config.prove_on))
    except (ProofFailed, LoadRefused) as error:  # trying again helps neither: it is the gate's to say so
        return replace(served, problem=error.message)
    kinds = config.engines[1:]
    return replace(served, others=tuple(_beside(here, kind, config, version, served, evidence) for kind in kinds))


def _beside(
    here: Home, kind: str, config: ServingConfig, version: Version, served: Served, evidence: Evidence
) -> ServedBeside:
    """Load and prove the version on another kind of engine; whatever is wrong there is noted."""
    folder, asked_nothing = Path(served.adapter_folder), replace(evidence, questions=())
    noted = ServedBeside(kind)
    try:
        place = find_place(here, served.base, config, version, folder, kind)
        noted = replace(noted, engine_id=place.engine.id, replaces=place.replaces.id if place.replaces else "")
        placed = put(here, place, version, folder, asked_nothing, config.prove_on)
    except TurnoutError as error:
        return replace(noted, problem=error.message)
    proof = placed.proof
    assert proof is not None
    progress.current().cached &= not place.seconds and not placed.proven_now
    return replace(
        noted, rows=proof.rows, tokens=proof.tokens, eval_loss=proof.served_nats, difference=proof.difference
    )


def put(
    here: Home,
    place: Place,
    version: Version,
    folder: Path,
    evidence: Evidence,
    prove_on: ProveOn | None = None,
) -> Placed:
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
            prove_on=prove_on,
        )
        with exclusive(here.lock("reconcile")):  # a pass writes what it saw ready before
            mark_ready(here, place.engine, version.served_name)
        return placed
    except LoadRefused:
        if place.replaces:
            stop_engine(here, place.engine)
        raise


def _with_figures(served: Served, placed: Placed) -> Served:
    proof = placed.proof
    assert proof is not None
    progress.current().cached = not served.engine_start_seconds and not placed.proven_now
    return replace(
        served,
        eval_loss=proof.served_nats,
        difference=proof.difference,
        rows=proof.rows,
        tokens=proof.tokens,
        answers=placed.answers,
    )
