"""Reads the validation rows of a prepared dataset that scores and proofs are made on."""

import hashlib
import json
from dataclasses import dataclass
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
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(dataset.validation_file)
    digests = table.column("row_sha256").to_pylist()
    order = sorted(range(len(digests)), key=lambda index: (_rank(digests[index]), index))[:max_rows]
    return [
        ScoredRow(row["row_sha256"], row["input_ids"], row["loss_mask"], json.loads(row["messages"]))
        for row in table.take(order).to_pylist()
    ]


def _rank(row_sha256: str) -> str:
    return hashlib.sha256((_SALT + row_sha256).encode()).hexdigest()
