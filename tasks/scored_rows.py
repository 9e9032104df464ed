"""rows.json: each scored row's loss under each model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from data.rows import ScoredRow
from turnout.files import read_state, write_json

ROWS = "rows.json"


@dataclass(frozen=True)
class RowLoss:
    """A row's summed negative log-likelihood, in nats, over the `tokens` of its answers."""

    row_sha256: str
    nll_sum: float
    tokens: int


def keep_rows(path: Path, models: Mapping[str, tuple[Sequence[ScoredRow], Sequence[float]]]) -> None:
    """Write, for each model's name, its rows and their summed losses in nats."""
    kept = {
        name: [
            {"row_sha256": row.row_sha256, "nll_sum": nll, "tokens": sum(row.loss_mask)}
            for row, nll in zip(rows, sums, strict=True)
        ]
        for name, (rows, sums) in models.items()
    }
    write_json(path, kept)


def read_rows(path: Path) -> dict[str, list[RowLoss]] | None:
    """The rows by model; None where the file is gone or damaged."""
    return read_state(path, dict[str, list[RowLoss]])
