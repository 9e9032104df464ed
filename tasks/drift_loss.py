"""Scores the champion on fresh rows: the child process of `tasks.watching`."""

from typing import Any

from data.rows import ScoredRow
from tasks.children import main, quieten
from tasks.loading import at_training_precision, with_adapters
from turnout.errors import ScoringFailed
from turnout.references import Base, from_json


def run(job: dict[str, Any]) -> list[float]:
    """Each row's summed negative log-likelihood, in nats, of the adapter at the precision that it was trained with."""
    import math

    quieten()
    from tasks.losses import row_losses

    rows = from_json(list[ScoredRow], job["rows"])
    model = at_training_precision(from_json(Base, job["base"]), job["double_quantisation"], write_parity=False)
    model = with_adapters(model, {"champion": job["adapter"]})
    sums = row_losses(model, rows, job["batch_size"])
    if not all(map(math.isfinite, sums)):
        raise ScoringFailed("the champion's loss on the fresh rows is not finite", "Look at the fresh rows.")
    return sums


if __name__ == "__main__":
    main(run)
