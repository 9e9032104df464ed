"""How sure a difference of two mean losses is: a paired bootstrap over validation rows."""

from typing import Any

from tasks.scored_rows import RowLoss

Interval = tuple[float, float]
SEED = 20
"""Fixed, so that the same losses always get the same verdict."""
VALUES_A_BATCH = 2_000_000
"""Losses that are drawn at a time: 16 MB an array."""


def interval_of_difference(
    minuend: list[RowLoss], subtrahend: list[RowLoss], confidence: float, resamples: int
) -> Interval | None:
    """The percentile interval of mean(minuend) − mean(subtrahend), in nats a token; None for under two rows.

    Whole rows are drawn, each with both models' losses and its tokens, because the tokens of one answer are not
    independent, and because the same rows are hard for both. A mean is weighted by tokens, as an eval loss is.
    """
    if len(minuend) < 2:
        return None
    import numpy as np
    from scipy.stats import bootstrap

    if any(left.row_sha256 != right.row_sha256 for left, right in zip(minuend, subtrahend, strict=True)):
        raise ValueError("the losses are not of the same rows in the same order")
    differences = np.array([left.nll_sum - right.nll_sum for left, right in zip(minuend, subtrahend, strict=True)])
    tokens = np.array([row.tokens for row in minuend], dtype=float)

    def mean(difference: Any, count: Any, axis: int) -> Any:
        return difference.sum(axis=axis) / count.sum(axis=axis)

    found = bootstrap(
        (differences, tokens),
        mean,
        paired=True,
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, VALUES_A_BATCH // len(minuend)),
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return round(float(found.low), 6), round(float(found.high), 6)
