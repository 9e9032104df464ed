import numpy as np
import pytest

from tasks.gate.intervals import interval_of_difference
from tasks.scored_rows import RowLoss


def rows(sums: list[float], tokens: list[int] | None = None) -> list[RowLoss]:
    counts = tokens or [10] * len(sums)
    return [RowLoss(f"{index}", nll, count) for index, (nll, count) in enumerate(zip(sums, counts, strict=True))]


def test_it_covers_the_true_difference_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        hard = random.normal(20, 8, 60)
        left, right = hard + random.normal(1, 3, 60), hard + random.normal(0, 3, 60)
        low, high = interval_of_difference(rows(list(left)), rows(list(right)), 0.9, 400) or (0.0, 0.0)
        hits += low <= 0.1 <= high
    assert 0.83 <= hits / 200 <= 0.96


def test_pairs_tell_what_means_alone_hide() -> None:
    hard = np.random.default_rng(0).normal(50, 30, 40)
    low, high = interval_of_difference(rows(list(hard + 1)), rows(list(hard)), 0.95, 500) or (0.0, 0.0)
    assert (low, high) == pytest.approx((0.1, 0.1))


def test_long_answers_weigh_more() -> None:
    left, right = rows([1000.0, 1.0] * 8, [1000, 1] * 8), rows([0.0, 1.0] * 8, [1000, 1] * 8)
    low, high = interval_of_difference(left, right, 0.95, 500) or (0.0, 0.0)
    assert low > 0.9 and high <= 1.0


def test_it_is_the_same_every_time_and_none_for_one_row() -> None:
    left, right = rows([1.0, 5.0, 2.0]), rows([2.0, 3.0, 2.5])
    assert interval_of_difference(left, right, 0.95, 300) == interval_of_difference(left, right, 0.95, 300)
    assert interval_of_difference(left[:1], right[:1], 0.95, 300) is None


def test_unlike_rows_are_no_pairs() -> None:
    with pytest.raises(ValueError, match="not of the same rows"):
        interval_of_difference(rows([1.0, 2.0]), rows([1.0, 2.0])[::-1], 0.95, 300)
