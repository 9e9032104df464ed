"""What the gate weighs: scores with their rows, prepared rows, and a version that was proven and asked."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from data.rows import ScoredRow
from tasks.deploying import Served
from tasks.scored_rows import keep_rows
from tests.registry.material import BASE, DATASET
from turnout.references import Answer, Base, Dataset, Loss, Scores

ROWS, TOKENS = 24, 40
END = BASE.eos_ids[0]
WELL = (Answer("a", "What?", "ok", "ok", "stop", 2), Answer("b", "And now?", "ok then", "ok then", "stop", 3))


def losses(mean: float, rows: int = ROWS, noise: float = 0.0, seed: int = 0) -> list[float]:
    """Each row's summed nats: some rows are hard for every model, and `noise` differs from model to model."""
    hard = np.random.default_rng(1).normal(0, 0.5, rows)
    own = np.random.default_rng(seed).normal(0, 1, rows) * noise
    values = (hard - hard.mean()) + (own - own.mean()) + mean
    return [float(value) for value in values * TOKENS]


def measured(folder: Path, **means: Any) -> Scores:
    """Scores with such eval losses; a value may be a list of the rows' summed nats."""
    sums = {name: value if isinstance(value, list) else losses(value) for name, value in means.items()}

    def rows(count: int) -> list[ScoredRow]:
        return [ScoredRow(f"{index}", [1] * TOKENS, [1] * TOKENS, []) for index in range(count)]

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "rows.json"
    keep_rows(file, {name: (rows(len(values)), values) for name, values in sums.items()})
    found: dict[str, Loss] = {}
    for name, values in sums.items():
        tokens = TOKENS * len(values)
        found[name] = Loss(sum(values) / tokens, tokens, len(values))
    known: dict[str, Any] = {"champion": None} | found
    return Scores(**known, base_original=found["base"], candidate_original=found["candidate"], rows_path=str(file))


def prepared(folder: Path, train: list[list[int]] | None = None, base: Base = BASE) -> Dataset:
    """A dataset whose training rows have these labelled tokens, after one token of a prompt."""
    folder.mkdir(parents=True, exist_ok=True)
    healthy = [[5, 6, base.eos_ids[0]], [7, base.eos_ids[0]]]
    dataset = replace(DATASET, path=str(folder), train_rows=len(train or healthy), validation_rows=len(healthy))
    for file, answers in ((dataset.train_file, train or healthy), (dataset.validation_file, healthy)):
        columns = {
            "input_ids": pa.array([[1, *answer] for answer in answers], pa.list_(pa.int32())),
            "loss_mask": pa.array([[0, *[1] * len(answer)] for answer in answers], pa.list_(pa.int8())),
        }
        pyarrow.parquet.write_table(pa.table(columns), file)
    return dataset


def proven(**more: Any) -> Served:
    """A version that passed its proof and answers well."""
    figures = {"eval_loss": 1.9, "difference": 0.001, "answers": WELL} | more
    return Served("vllm-8000", "http://127.0.0.1:1", 0.0, BASE, "/adapter", 0.02, **figures)
