"""Scores base, candidate and champion on the same validation tokens: the child process of `tasks.scoring`."""

from pathlib import Path
from typing import Any

from data.rows import ScoredRow, unseen_sample, validation_sample
from tasks.children import main, quieten, say
from tasks.config import ScoreConfig
from tasks.loading import at_training_precision, with_adapters
from tasks.scored_rows import ROWS, keep_rows
from turnout.errors import ScoringFailed
from turnout.references import Base, Dataset, Loss, Sample, Scores, from_json


def run(job: dict[str, Any]) -> Scores:
    quieten()
    dataset, base = from_json(Dataset, job["dataset"]), from_json(Base, job["base"])
    return score_here(dataset, base, job["adapters"], ScoreConfig(**job["config"]), Path(job["work_folder"]), job)


def score_here(
    dataset: Dataset,
    base: Base,
    adapters: dict[str, str],
    config: ScoreConfig,
    work_folder: Path,
    how: dict[str, Any],
) -> Scores:
    """Score in this process; `adapters` are the folders of "candidate" and, if there is one, "champion".

    `how` holds `double_quantisation`, as the candidate was trained, `write_parity`, and where the champion has
    validation rows of its own their dataset as `own`, or as `own_note` why not. Leaves each row's loss of each
    model in `work_folder/rows.json`.

    Raises:
        ScoringFailed: there is nothing to score on, or a loss is not finite.
    """
    from tasks.losses import row_losses

    rows = validation_sample(dataset, config.max_rows)
    if not rows:
        raise ScoringFailed("there are no validation rows to score on", "Raise data.validation_fraction.")
    own_rows, left_out, own_note = _own_rows(dataset, config, how)
    losses: dict[str, list[float]] = {}
    say(work_folder, "loading the base at training precision")
    model = at_training_precision(base, how["double_quantisation"], write_parity=how["write_parity"])
    say(work_folder, "scoring the base")
    losses["base"] = row_losses(model, rows, config.batch_size)
    answers = {"base": _answers(model, rows, base, config, work_folder, "base")}
    model = with_adapters(model, adapters)
    for name in adapters:
        say(work_folder, f"scoring the {name}")
        model.set_adapter(name)
        losses[name] = row_losses(model, rows, config.batch_size)
        answers[name] = _answers(model, rows, base, config, work_folder, name)
        if own_rows:
            losses[f"own_{name}"] = _own_losses(model, own_rows, rows, losses[name], config.batch_size)
    del model
    losses |= _on_original(base, adapters["candidate"], rows, config, work_folder)
    models = {name: (own_rows if name.startswith("own_") else rows, sums) for name, sums in losses.items()}
    keep_rows(work_folder / ROWS, models)
    means: dict[str, Any] = {"champion": None} | {name: _mean(*measured) for name, measured in models.items()}
    return Scores(
        **means,
        samples=_samples(rows, answers, config.samples),
        rows_path=str(work_folder / ROWS),
        own_left_out=left_out,
        own_note=own_note,
    )


def _own_rows(dataset: Dataset, config: ScoreConfig, how: dict[str, Any]) -> tuple[list[ScoredRow], int, str]:
    """The champion's own validation rows, how many were left out as trained on, and why there are none."""
    if how.get("own") is None:
        return [], 0, how.get("own_note", "")
    rows, left_out = unseen_sample(from_json(Dataset, how["own"]), config.max_rows, trained_on=dataset)
    return rows, left_out, "" if rows else f"the candidate was trained on the prompts of all its {left_out} rows"


def _own_losses(
    model: Any, own_rows: list[ScoredRow], rows: list[ScoredRow], sums: list[float], batch_size: int
) -> list[float]:
    """The losses of `own_rows`; those that are among `rows` too have the loss that they have there."""
    from tasks.losses import row_losses

    known = dict(zip((row.row_sha256 for row in rows), sums, strict=True))
    others = [row for row in own_rows if row.row_sha256 not in known]
    known |= zip((row.row_sha256 for row in others), row_losses(model, others, batch_size), strict=True)
    return [known[row.row_sha256] for row in own_rows]


def _on_original(
    base: Base, candidate: str, rows: list[ScoredRow], config: ScoreConfig, work_folder: Path
) -> dict[str, list[float]]:
    """Losses on the base as it was published."""
    from tasks.losses import row_losses
    from tasks.quantise import load_bf16

    say(work_folder, "scoring on the base as published")
    model = load_bf16(base.path)
    of_base = row_losses(model, rows, config.batch_size)
    model = with_adapters(model, {"candidate": candidate})
    return {"base_original": of_base, "candidate_original": row_losses(model, rows, config.batch_size)}


def _answers(
    model: Any, rows: list[ScoredRow], base: Base, config: ScoreConfig, work_folder: Path, name: str
) -> list[str]:
    from tasks.losses import greedy_answers

    if not config.samples:
        return []
    say(work_folder, f"writing the sample answers of the {name}")
    prompts = [row.prompt_ids for row in rows[: config.samples]]
    return greedy_answers(model, prompts, base, config.sample_tokens)


def _samples(rows: list[ScoredRow], answers: dict[str, list[str]], count: int) -> tuple[Sample, ...]:
    def said(row: ScoredRow, role: str) -> str:
        return next((str(entry["content"]) for entry in reversed(row.messages) if entry["role"] == role), "")

    return tuple(
        Sample(said(row, "user"), said(row, "assistant"), **{name: texts[index] for name, texts in answers.items()})
        for index, row in enumerate(rows[:count])
    )


def _mean(rows: list[ScoredRow], sums: list[float]) -> Loss:
    import math

    tokens = sum(sum(row.loss_mask) for row in rows)
    nats = math.fsum(sums) / tokens
    if not math.isfinite(nats):
        raise ScoringFailed(f"the mean loss over {tokens} tokens is {nats}", "Train with a lower learning rate.")
    return Loss(nats=nats, tokens=tokens, rows=len(rows))


if __name__ == "__main__":
    main(run)
