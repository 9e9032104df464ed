"""Reads the rows of a prepared dataset that scores, proofs and comparisons are made on."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnout.references import Dataset

_SALT = "turnout/sample/1:"


@dataclass(frozen=True)
class ScoredRow:
    """A validation row as the scorer and the engine both see it; `loss_mask` is 1 on the answers' tokens."""

    row_sha256: str
    input_ids: list[int]
    loss_mask: list[int]
    messages: list[dict[str, Any]]

    @property
    def prompt_ids(self) -> list[int]:
        """The tokens before the last answer, as an engine gets them when it is asked for that answer."""
        end = len(self.loss_mask)
        while end and self.loss_mask[end - 1]:
            end -= 1
        return self.input_ids[:end]


def validation_sample(dataset: Dataset, max_rows: int) -> list[ScoredRow]:
    """At most `max_rows` validation rows, picked by their content, so that adding rows changes the choice least.

    The order is the same every time. Equal rows stay equal in number: they count as often as they stand there.
    """
    return sample_rows(dataset.validation_file, max_rows)


def sample_rows(file: Path, max_rows: int) -> list[ScoredRow]:
    """As `validation_sample`, of any of a prepared dataset's files; only the rows that are picked are read whole."""
    import pyarrow.dataset

    table = pyarrow.dataset.dataset(file, format="parquet")
    return _scored(table, pick(table.to_table(columns=["row_sha256"]).column(0).to_pylist(), max_rows))


def unseen_sample(dataset: Dataset, max_rows: int, trained_on: Dataset) -> tuple[list[ScoredRow], int]:
    """As `validation_sample`, without the rows whose prompts `trained_on` trains on; and how many those are."""
    import pyarrow.dataset
    import pyarrow.parquet

    trained = pyarrow.parquet.read_table(trained_on.train_file, columns=["prompt_sha256"])
    seen = set(trained.column(0).to_pylist())
    table = pyarrow.dataset.dataset(dataset.validation_file, format="parquet")
    digests = table.to_table(columns=["row_sha256", "prompt_sha256"]).to_pylist()
    unseen = [index for index, row in enumerate(digests) if row["prompt_sha256"] not in seen]
    picked = pick([digests[index]["row_sha256"] for index in unseen], max_rows)
    return _scored(table, [unseen[index] for index in picked]), len(digests) - len(unseen)


def _scored(table: Any, order: list[int]) -> list[ScoredRow]:
    return [
        ScoredRow(row["row_sha256"], row["input_ids"], row["loss_mask"], json.loads(row["messages"]))
        for row in table.take(order).to_pylist()
    ]


def pick(digests: Sequence[str], count: int) -> list[int]:
    """The indices of at most `count` rows, by their digests alone."""
    return sorted(range(len(digests)), key=lambda index: (_rank(digests[index]), index))[:count]


def _rank(row_sha256: str) -> str:
    return hashlib.sha256((_SALT + row_sha256).encode()).hexdigest()
