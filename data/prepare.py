"""The prepare stage: a source becomes tokenised rows, split into training and validation."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from data.check import check_source
from data.config import DataConfig
from data.conversation import Row, Rows, conversation_sha256, turns
from data.problems import Problems, RowProblem
from data.source import source_name
from data.split import split
from data.tokens import encode_all, load_tokenizer
from turnout.digests import canonical_json
from turnout.errors import DataError
from turnout.files import new_folder, write_json
from turnout.references import Base, Dataset, to_json

_DATASET_FILE = "dataset.json"
_FILES = ("train.parquet", "validation.parquet", _DATASET_FILE)
_BATCH = 512
"""Rows encoded, or written, at a time."""


@dataclass(frozen=True, slots=True)
class _Tokens:
    """A row that fits, with its tokens as NumPy arrays: a tenth of a list's memory."""

    row: Row
    prompt_sha256: str
    row_sha256: str
    input_ids: Any
    loss_mask: Any


def prepare(config: DataConfig, base: Base, out: Path, progress: Callable[[int, int], None] | None = None) -> Dataset:
    """Write `train.parquet`, `validation.parquet` and `dataset.json` to the folder `out`, all or nothing.

    `progress` is told the rows done and the rows in all.

    Raises:
        DataError: the source cannot be used, or too few rows fit `config.max_length`.
        BadInput: the base's tokenizer cannot be loaded or has no chat template.
    """
    rows = check_source(config)
    tokenizer = load_tokenizer(base.path)
    kept, too_long, notes = _fit(rows, _encode(rows, tokenizer, base, progress), config)
    try:
        validation, moved = split([item.prompt_sha256 for item in kept], config.validation_fraction)
    except DataError as error:
        if not too_long:
            raise
        message = (
            f"{rows.file}: {too_long} of {len(rows.rows)} rows are over data.max_length={config.max_length} tokens"
        )
        raise DataError(
            f"{message}, which leaves {error.message}", "Raise data.max_length or shorten the rows."
        ) from None
    if "strftime_now" in str(tokenizer.chat_template):
        notes.append("the chat template writes today's date into prompts, so other days give other tokens")
    sides = {"train": [item for item in kept if item.prompt_sha256 not in validation]}
    sides["validation"] = [item for item in kept if item.prompt_sha256 in validation]
    dataset = Dataset(
        path=str(out),
        source=source_name(config),
        format=rows.format,
        sha256=_digest(kept, validation),
        rows=len(rows.rows),
        train_rows=len(sides["train"]),
        validation_rows=len(sides["validation"]),
        too_long=too_long,
        train_tokens=sum(len(item.input_ids) for item in sides["train"]),
        validation_tokens=sum(len(item.input_ids) for item in sides["validation"]),
        longest=max(len(item.input_ids) for item in kept),
        template_sha256=base.template_sha256,
        notes=(*rows.notes, *notes, *([moved] if moved else [])),
    )
    _write(dataset, sides, out)
    return dataset


def _encode(
    rows: Rows, tokenizer: Any, base: Base, progress: Callable[[int, int], None] | None
) -> Iterator[tuple[_Tokens, bool]]:
    """Each row's tokens, and whether its earlier answers could not be marked."""
    import numpy as np

    for start in range(0, len(rows.rows), _BATCH):
        batch = rows.rows[start : start + _BATCH]
        try:
            encoded = list(encode_all([row.messages for row in batch], tokenizer, base.eos_ids))
        except RowProblem as problem:
            text, index = problem.args
            raise DataError(
                f"{rows.file}, {rows.place} {batch[index].line}: {text}", "Change the row, or use another base."
            ) from problem
        for row, item in zip(batch, encoded, strict=True):
            tokens = _Tokens(
                row,
                conversation_sha256(row.prompt),
                conversation_sha256(row.messages),
                np.asarray(item.input_ids, dtype=np.int32),
                np.asarray(item.loss_mask, dtype=np.int8),
            )
            yield tokens, item.last_only
        if progress:
            progress(min(start + _BATCH, len(rows.rows)), len(rows.rows))


def _fit(
    rows: Rows, encoded: Iterator[tuple[_Tokens, bool]], config: DataConfig
) -> tuple[list[_Tokens], int, list[str]]:
    """The rows within `max_length`, how many are not, and notes.

    Raises:
        DataError: some are not and `on_too_long` is "refuse".
    """
    kept: list[_Tokens] = []
    problems = Problems(rows.file, rows.place)
    last_only = 0
    for tokens, last in encoded:
        if len(tokens.input_ids) > config.max_length:
            problems.add(tokens.row.line, f"{len(tokens.input_ids)} tokens, and data.max_length is {config.max_length}")
        else:
            kept.append(tokens)
            last_only += last
    if config.on_too_long == "refuse":
        problems.raise_any("Shorten these rows, raise data.max_length, or set data.on_too_long=drop to leave them out.")
    notes = []
    if problems.total:
        notes.append(
            f"{problems.total} of {len(rows.rows)} rows are over max_length={config.max_length} and were dropped"
        )
    if last_only:
        notes.append(f"in {last_only} rows only the last answer counts: the chat template rewrites earlier turns")
    return kept, problems.total, notes


def _digest(kept: list[_Tokens], validation: frozenset[str]) -> str:
    digest = hashlib.sha256()
    for item in kept:
        side = "validation" if item.prompt_sha256 in validation else "train"
        digest.update(f"{item.row_sha256} {side}\n".encode())
    return digest.hexdigest()


def _write(dataset: Dataset, sides: dict[str, list[_Tokens]], out: Path) -> None:
    with new_folder(out) as folder:
        for name, items in sides.items():
            _write_parquet(folder / f"{name}.parquet", items)
        reference = to_json(replace(dataset, path=""))
        del reference["path"]
        write_json(folder / _DATASET_FILE, reference)
        if out.is_dir() and not _same(folder, out):
            shutil.rmtree(out)


def _same(new: Path, old: Path) -> bool:
    """Whether `old` holds the files of `new`, byte for byte: then it stays, and whoever reads it is not disturbed."""
    return all((old / name).is_file() and (old / name).read_bytes() == (new / name).read_bytes() for name in _FILES)


def _write_parquet(path: Path, items: list[_Tokens]) -> None:
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
        for start in range(0, len(items), 20 * _BATCH):
            part = items[start : start + 20 * _BATCH]
            columns = [
                [canonical_json(turns(item.row.messages)) for item in part],
                [item.prompt_sha256 for item in part],
                [item.row_sha256 for item in part],
                [item.input_ids for item in part],
                [item.loss_mask for item in part],
            ]
            writer.write_table(pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema))
