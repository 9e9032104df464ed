"""Compares fresh labelled rows with what the champion learnt, once for each content of theirs."""

from collections.abc import Callable
from dataclasses import dataclass

from data.config import DataConfig
from data.fresh import fresh_rows
from data.rows import ScoredRow, sample_rows
from data.source import resolve, source_sha256
from registry.adapters import fetch
from registry.datasets import fetch_dataset
from registry.store import connect
from registry.versions import Version
from tasks.cache import cached
from tasks.children import run_module
from tasks.retrain_config import RetrainConfig
from tasks.shifts import Prompts, Shift, length_shift, loss_shift, vocabulary_shift
from turnout.errors import ArtifactDamaged, NotFound, ScoringFailed, TurnoutError
from turnout.paths import home
from turnout.references import Base, Dataset, Loss, to_json

BATCH = 8
"""Rows that the champion is scored on at a time."""


@dataclass(frozen=True)
class Drift:
    """What `rows` fresh rows show; `about` names them and the champion, `note` says why there are no figures."""

    rows: int
    about: str
    shifts: tuple[Shift, ...] = ()
    note: str = ""

    @property
    def drifted(self) -> bool:
        return any(shift.drifted for shift in self.shifts)

    @property
    def reason(self) -> str:
        """The figures that are drift, in words."""
        return "; ".join(shift.text for shift in self.shifts if shift.drifted)


def measure_drift(
    config: RetrainConfig, fresh: DataConfig, champion: Version, base: Base, *, double_quantisation: bool
) -> Drift:
    """How far the rows of `fresh` are from what `champion` learnt.

    Raises:
        DataError: the fresh rows cannot be used.
        RegistryUnavailable: MLflow did not answer.
    """
    manifest, digest = champion.manifest, source_sha256(resolve(fresh))
    about = f"{digest}:{manifest.adapter_sha256}"
    tokens = (manifest.tokenizer_sha256, manifest.template_sha256)
    if tokens != (base.tokenizer_sha256, base.template_sha256):
        return Drift(0, about, note=f"{champion.served_name} was trained with another tokenizer or chat template")
    inputs = {
        "fresh": digest,
        "champion": manifest.adapter_sha256,
        "base": base.sha256,
        "double_quantisation": double_quantisation,
        "max_length": fresh.max_length,
        "retrain": config.model_dump(mode="json", exclude={"fresh"}),
    }

    def make(key: str) -> Drift:
        rows = fresh_rows(fresh, base, config.max_rows)
        if len(rows) < config.min_rows:
            note = f"{len(rows)} fresh rows say nothing: retrain.min_rows is {config.min_rows}"
            return Drift(len(rows), about, note=note)
        shifts = _of_prompts(config, rows, champion)
        if config.drift.loss is not None:
            # The rows that the champion's own eval loss is of are no longer than that.
            fitting = [row for row in rows if len(row.input_ids) <= fresh.max_length]
            shifts.append(_of_loss(config.drift.loss, fitting, champion, base, double_quantisation, key))
        return Drift(len(rows), about, tuple(shifts))

    return cached(home(), "drift", inputs, Drift, make, lambda _drift: True)


def _of_prompts(config: RetrainConfig, rows: list[ScoredRow], champion: Version) -> list[Shift]:
    measures: list[tuple[str, Callable[[Prompts, Prompts, float], Shift], float | None]] = [
        ("length", length_shift, config.drift.length),
        ("vocabulary", vocabulary_shift, config.drift.vocabulary),
    ]
    try:
        dataset = fetch_dataset(connect(home()), champion, home())
    except (NotFound, ArtifactDamaged) as error:
        return [_unknown(name, limit, error) for name, _, limit in measures if limit is not None]
    fresh = [row.prompt_ids for row in rows]
    learnt = [row.prompt_ids for row in _learnt_rows(dataset, config.max_rows)]
    return [measure(fresh, learnt, limit) for _, measure, limit in measures if limit is not None]


def _learnt_rows(dataset: Dataset, max_rows: int) -> list[ScoredRow]:
    """Training rows; where those are on another machine, validation rows, which only a hash of the prompt set aside."""
    here = dataset.train_file.is_file()
    return sample_rows(dataset.train_file if here else dataset.validation_file, max_rows)


def _of_loss(
    limit: float, rows: list[ScoredRow], champion: Version, base: Base, double_quantisation: bool, key: str
) -> Shift:
    here, manifest = home(), champion.manifest
    if manifest.base_sha256 != base.sha256 or not rows:
        why = f"its base is {manifest.base}, not {base.id}" if rows else "no fresh row is within data.max_length"
        return Shift("loss", None, limit, False, f"the champion's loss was not measured: {why}")
    try:
        job = {
            "rows": [to_json(row) for row in rows],
            "base": base,
            "adapter": str(fetch(connect(here), champion, here)),
            "double_quantisation": double_quantisation,
            "batch_size": BATCH,
        }
        sums = run_module("tasks.drift_loss", job, here.stages / "drift" / key, failure=ScoringFailed)
    except TurnoutError as error:  # the other figures still count, and fresh rows with other content are tried again
        return _unknown("loss", limit, error)
    own = Loss(manifest.eval_loss, manifest.scored_tokens, manifest.scored_rows)
    return loss_shift(sums, [sum(row.loss_mask) for row in rows], own, limit)


def _unknown(name: str, limit: float | None, error: TurnoutError) -> Shift:
    return Shift(name, None, limit, False, f"{name} was not measured: {error.message}")
