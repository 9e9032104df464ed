"""Prepared rows as TRL takes tokenised ones: `input_ids`, and `labels` that are -100 outside the answers."""

from pathlib import Path
from typing import Any


def rows(parquet: Path) -> Any:
    """The rows of a prepared parquet file as a `datasets.Dataset`, in memory."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet
    from datasets import Dataset

    table = pyarrow.parquet.read_table(parquet, columns=["input_ids", "loss_mask"])
    ids = table.column("input_ids").combine_chunks()
    mask = table.column("loss_mask").combine_chunks()
    labels = np.where(mask.flatten().to_numpy() == 1, ids.flatten().to_numpy(), -100).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(ids.value_lengths().to_numpy())]).astype(np.int32)
    columns = {
        "input_ids": pa.ListArray.from_arrays(offsets, ids.flatten().cast(pa.int64())),
        "labels": pa.ListArray.from_arrays(offsets, pa.array(labels)),
    }
    return Dataset(pa.table(columns))
