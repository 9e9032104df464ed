"""The folder of a prepared dataset: its rows, its reference and the report of its checks, all or nothing."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from data.checks.page import report_page
from data.checks.report import Report
from data.conversation import Row, turns
from turnout.digests import canonical_json
from turnout.files import new_folder, write_atomically, write_json
from turnout.references import Dataset, to_json

_DATASET_FILE = "dataset.json"
CHECK_FILE, CHECK_PAGE = "check.json", "check.html"
_FILES = ("train.parquet", "validation.parquet", _DATASET_FILE, CHECK_FILE, CHECK_PAGE)
_BATCH = 10_000
"""Rows written at a time."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A row that fits, with its tokens as NumPy arrays: a tenth of a list's memory."""

    row: Row
    prompt_sha256: str
    row_sha256: str
    input_ids: Any
    loss_mask: Any


def write_dataset(dataset: Dataset, sides: dict[str, list[Tokens]], report: Report, out: Path) -> None:
    """Write everything to the folder `out`; a folder that holds the same already is left alone."""
    with new_folder(out) as folder:
        for name, items in sides.items():
            _write_parquet(folder / f"{name}.parquet", items)
        reference = to_json(replace(dataset, path=""))
        del reference["path"]
        write_json(folder / _DATASET_FILE, reference)
        write_json(folder / CHECK_FILE, report.data)
        write_atomically(folder / CHECK_PAGE, report_page(report.data))
        if out.is_dir() and not _same(folder, out):
            shutil.rmtree(out)


def _same(new: Path, old: Path) -> bool:
    """Whether `old` holds the files of `new`, byte for byte: then it stays, and whoever reads it is not disturbed."""
    return all((old / name).is_file() and (old / name).read_bytes() == (new / name).read_bytes() for name in _FILES)


def _write_parquet(path: Path, items: list[Tokens]) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    schema = pa.schema(
        [
            ("messages", pa.string()),
            ("prompt_sha256", pa.string()),
            ("row_sha256", pa.string()),
            ("input_ids", pa.list_(pa.int32())),
            ("loss_mask", pa.list_(pa.int8())),
        ]
    )
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, len(items), _BATCH):
            part = items[start : start + _BATCH]
            columns = [
                [canonical_json(turns(item.row.messages)) for item in part],
                [item.prompt_sha256 for item in part],
                [item.row_sha256 for item in part],
                [item.input_ids for item in part],
                [item.loss_mask for item in part],
            ]
            writer.write_table(pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema))
