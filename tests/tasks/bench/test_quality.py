"""The rows that quality is measured on, and the share of equal answers."""

from pathlib import Path

import pytest

from data.config import DataConfig
from tasks.bench.quality import equal_percent, validation_rows
from tests.tasks.toy import make_base, make_dataset


def test_equal_answers_are_counted_letter_by_letter() -> None:
    assert equal_percent(["a", "b ", "c", "d"], ["a", "b", "c", "D"]) == 50
    assert equal_percent([], []) == 0


def test_answers_to_other_prompts_are_not_compared() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        equal_percent(["a"], ["a", "b"])


def test_rows_are_the_same_every_time(tmp_path: Path) -> None:
    base = make_base(tmp_path / "base")
    make_dataset(tmp_path, base)
    data = DataConfig(path=str(tmp_path / "rows.jsonl"), max_length=128)
    rows = validation_rows(data, base, 3)
    assert len(rows) == 3
    assert rows == validation_rows(data, base, 3)
    assert rows[:2] == validation_rows(data, base, 2)
    assert all(row.prompt_ids and sum(row.loss_mask) for row in rows)
