"""The plots of a run's report: how the loss went down, and how long the rows are."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnout.pages import plot_style
from turnout.references import Dataset, Scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BATCH = 4096
"""Rows whose tokens are in memory at a time."""
_BARS = 40


def loss_curves(metrics: Sequence[dict[str, Any]], scores: Scores) -> "Figure | None":
    """Training's loss and learning rate over its steps, and the losses that were scored; None without metrics."""
    from matplotlib.figure import Figure

    steps = [line for line in metrics if "loss" in line]
    if not steps:
        return None
    with plot_style():
        fig = Figure()
        axes = fig.add_subplot(xlabel="step", ylabel="loss, nats a token")
        axes.plot([line["step"] for line in steps], [line["loss"] for line in steps], linewidth=1.2, label="training")
        seen = [line for line in metrics if "eval_loss" in line]
        if seen:
            axes.plot([line["step"] for line in seen], [line["eval_loss"] for line in seen], "o-", label="validation")
        axes.axhline(scores.base.nats, color="gray", linestyle="--", linewidth=1, label="base, eval loss")
        axes.axhline(scores.candidate.nats, color="green", linestyle="--", linewidth=1, label="candidate, eval loss")
        if scores.champion:
            axes.axhline(scores.champion.nats, color="orange", linestyle="--", linewidth=1, label="champion, eval loss")
        axes.set_ylim(bottom=0)
        rates = axes.twinx()
        rates.plot(
            [line["step"] for line in steps],
            [line["learning_rate"] for line in steps],
            color="purple",
            linestyle=":",
            linewidth=1,
            label="learning rate",
        )
        rates.set_ylabel("learning rate")
        rates.set_ylim(bottom=0)
        rates.grid(visible=False)
        fig.legend(loc="outside upper left", ncols=4)
    return fig


def length_bars(dataset: Dataset) -> "Figure":
    """The rows of both sides by their length in the base's tokens; each side's bars add up to 1."""
    import numpy as np
    from matplotlib.figure import Figure

    sides = {"training": token_lengths(dataset.train_file), "validation": token_lengths(dataset.validation_file)}
    longest = max([1, *(max(lengths) for lengths in sides.values() if lengths)])
    with plot_style():
        fig = Figure()
        axes = fig.add_subplot(xlabel="tokens in a row", ylabel="share of rows")
        for side, lengths in sides.items():
            weights = np.full(len(lengths), 1 / max(len(lengths), 1))
            axes.hist(
                lengths,
                bins=_BARS,
                range=(0, longest),
                weights=weights,
                alpha=0.6,
                label=f"{side}, {len(lengths):,} rows",
            )
        fig.legend(loc="outside upper left", ncols=4)
    return fig


def token_lengths(rows: Path) -> list[int]:
    """The tokens in each row of a prepared Parquet file, without ever holding all of them."""
    import pyarrow.compute
    import pyarrow.parquet

    batches = pyarrow.parquet.ParquetFile(rows).iter_batches(_BATCH, columns=["input_ids"])
    return [
        length
        for batch in batches
        for length in pyarrow.compute.list_value_length(batch.column("input_ids")).to_pylist()
    ]
