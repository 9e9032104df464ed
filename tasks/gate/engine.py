"""The gate's rules on the contract between training and the engine: the proof, and the answers' end tokens."""

from pathlib import Path
from typing import TYPE_CHECKING

from registry.manifest import GateRule as Rule
from turnout.references import Dataset

if TYPE_CHECKING:
    from tasks.deploying import Served

ROWS_A_BATCH = 8192


def proof_rule(served: "Served") -> Rule:
    """Whether the engine serves what was trained: the prompts, an effect, the loss in nats a token, the files."""
    if served.problem or served.difference is None:
        return Rule("proof", False, served.difference, served.tolerance, served.problem or "it was not proven")
    text = (
        f"served eval loss {served.eval_loss:.4f} on {served.base.name} is {served.difference:.4f} away from "
        f"training's, at most {served.tolerance} allowed"
    )
    return Rule("proof", served.difference <= served.tolerance, served.difference, served.tolerance, text)


def contract_rule(dataset: Dataset, eos_ids: tuple[int, ...]) -> Rule:
    """Whether every row teaches to stop: its last labelled token is one that the engine stops at.

    The figure is the number of rows that do not.
    """
    missing = [_without_end(file, eos_ids) for file in (dataset.train_file, dataset.validation_file)]
    count, rows = sum(missing), dataset.train_rows + dataset.validation_rows
    ends = f"the base's end tokens ({', '.join(map(str, eos_ids))})"
    text = f"all {rows} rows' answers end with one of {ends}"
    if count:
        text = f"{missing[0]} training and {missing[1]} validation rows' answers do not end with one of {ends}"
    return Rule("contract", not count, float(count), 0.0, text)


def _without_end(file: Path, eos_ids: tuple[int, ...]) -> int:
    """The rows of a prepared file whose last labelled token is no end token, or that have none."""
    import numpy as np
    import pyarrow.parquet

    count = 0
    with pyarrow.parquet.ParquetFile(file) as rows:
        for batch in rows.iter_batches(ROWS_A_BATCH, columns=["input_ids", "loss_mask"]):
            ids, mask = batch.column("input_ids"), batch.column("loss_mask")
            ends = np.isin(ids.flatten().to_numpy(), eos_ids)
            lengths = mask.value_lengths().to_numpy()
            row_of_token = np.repeat(np.arange(len(lengths)), lengths)
            labelled = mask.flatten().to_numpy() == 1
            last = np.full(len(lengths), -1)
            # Of several values for one place NumPy keeps the last.
            last[row_of_token[labelled]] = labelled.nonzero()[0]
            count += int((~np.where(last >= 0, ends[last], False)).sum())
    return count
