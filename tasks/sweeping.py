"""A sweep: the same rows trained with several settings, each as a child of one MLflow run; the best goes on."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from registry.runs import finish_run, log_metrics, log_params, nest_run, open_run
from registry.store import connect
from tasks import comparing, progress, steps
from tasks.cache import key_of
from tasks.checkpoints import read_metrics
from tasks.config import ScoreConfig, TrainConfig
from tasks.forwarding import MetricForwarder
from turnout.errors import RegistryUnavailable, TrainingFailed
from turnout.paths import home
from turnout.references import Base, Dataset


@dataclass(frozen=True)
class Combination:
    """One of a sweep's `count` combinations: `settings` as they are, `overrides` as they were written."""

    number: int
    count: int
    settings: dict[str, Any]
    overrides: tuple[str, ...]
    train: TrainConfig


@dataclass(frozen=True)
class Sweep:
    """What all combinations of a sweep share; `write_parity` as the pipeline's scoring wants it."""

    name: str
    dataset: Dataset
    base: Base
    score: ScoreConfig
    write_parity: bool


@dataclass(frozen=True)
class Scored:
    """A combination that was trained: its eval loss in nats a token, its MLflow run, and what it took now."""

    eval_loss: float
    run_id: str
    seconds: float


@contextmanager
def parent_run(about: Sweep, combinations: Sequence[Combination]) -> Iterator[str]:
    """The id of the MLflow run above those of the combinations; the same sweep again goes on in the same one."""
    here = home()
    client = connect(here)
    trainings = [_inputs(each, about) for each in combinations]
    run_id = open_run(
        client, about.name, key_of({"sweep": trainings}), {"turnout.stage": "sweep"}, what="sweep", home=here
    )
    values: dict[str, list[str]] = {}
    for each in combinations:
        for key, value in each.settings.items():
            if str(value) not in values.setdefault(key, []):
                values[key].append(str(value))
    log_params(client, run_id, {"sweep": {key: ", ".join(found) for key, found in values.items()}})
    try:
        yield run_id
    except BaseException:
        with suppress(RegistryUnavailable):  # what stopped the sweep is the error to show
            finish_run(client, run_id, "FAILED")
        raise
    finish_run(client, run_id)


def train_and_score(each: Combination, about: Sweep, parent_id: str) -> Scored:
    """Train and score one combination as the pipeline would, so that the pipeline finds the best one's in place.

    Raises:
        TurnoutError: what kept it from being trained or scored.
    """
    here = home()
    client = connect(here)
    key = key_of(_inputs(each, about))
    run_id = nest_run(client, about.name, key, parent_id, {"turnout.stage": "train"}, home=here)
    # Stages that a sweep repeats are not the pipeline's: they are told to its watcher alone.
    with progress.watched(progress.current().watcher) as run:
        what = f"sweep {each.number}/{each.count}"
        with progress.timed(what):
            adapter = steps.train(about.name, each.train, about.dataset, about.base)
            trained, run.cached = not run.cached, False
            champion = steps.find_champion(about.name, other_than=adapter.adapter_sha256)
            scores = comparing.score(
                about.score,
                each.train,
                about.dataset,
                adapter,
                about.base,
                champion,
                write_parity=about.write_parity,
            )
            run.cached = run.cached and not trained
            MetricForwarder(client, run_id).send(read_metrics(Path(adapter.path).parent))
            losses = {"eval_loss": scores.candidate.nats, "base_eval_loss": scores.base.nats}
            log_metrics(client, run_id, adapter.steps, losses)
            finish_run(client, run_id)
        return Scored(scores.candidate.nats, run_id, run.stages[what].seconds)


def sweep_rows(combinations: Sequence[Combination], ends: Sequence[Scored | BaseException]) -> list[dict[str, Any]]:
    """A row for each combination; the one with the lowest eval loss, the first of equals, is `chosen`.

    Raises:
        TrainingFailed: none could be trained and scored.
    """
    losses = [end.eval_loss for end in ends if isinstance(end, Scored)]
    if not losses:
        raise TrainingFailed(
            f"none of the {len(combinations)} combinations could be trained; "
            f"{', '.join(combinations[0].overrides)}: {_said(ends[0])}",
            "Correct what it says and run the same command again: what is done is kept.",
        )
    best = next(index for index, end in enumerate(ends) if isinstance(end, Scored) and end.eval_loss == min(losses))
    return [_row(each, end, index == best) for index, (each, end) in enumerate(zip(combinations, ends, strict=True))]


def _row(each: Combination, end: Scored | BaseException, chosen: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"settings": each.settings, "chosen": chosen}
    if isinstance(end, Scored):
        return row | {"eval_loss": end.eval_loss, "run_id": end.run_id, "seconds": end.seconds, "error": None}
    return row | {"eval_loss": None, "run_id": None, "seconds": None, "error": _said(end)}


def _inputs(each: Combination, about: Sweep) -> dict[str, Any]:
    return steps.train_inputs(about.name, each.train, about.dataset, about.base)


def _said(end: object) -> str:
    return str(end).partition("\n")[0]
