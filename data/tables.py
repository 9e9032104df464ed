"""Reads CSV and Parquet tables into numbered records."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data.problems import Problems
from data.records import MAX_ROW_BYTES, Record, read_text
from turnout.errors import DataError

_TURNS = ("messages", "conversations", "conversation")
_TEXT_OR_TURNS = ("prompt", "completion")


def read_csv(path: Path, problems: Problems) -> Iterator[Record]:
    """The rows of a CSV file as header → text; its delimiter is a comma, a semicolon or a tab.

    Raises:
        DataError: two columns share a name, or the file is not UTF-8.
    """
    csv.field_size_limit(MAX_ROW_BYTES)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            delimiter = _delimiter(file.readline())
            file.seek(0)
            yield from _csv_records(csv.reader(file, delimiter=delimiter, strict=True), str(path), problems)
    except UnicodeDecodeError:
        read_text(path)  # which names the byte
        raise


def _csv_records(reader: Any, file: str, problems: Problems) -> Iterator[Record]:
    header: list[str] | None = None
    start = 1
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problems.add(start, _csv_fault(error))
            return
        if header is None and fields:
            header = _header(fields, file)
        elif header is not None and fields:
            if len(fields) == len(header):
                yield start, _with_turns(dict(zip(header, fields, strict=True)))
            else:
                problems.add(start, f"{len(fields)} fields where the header has {len(header)}")
        start = reader.line_num + 1


def _delimiter(header: str) -> str:
    return max(",;\t", key=header.count)


def _header(fields: list[str], file: str) -> list[str]:
    names = [field.strip() for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{file}, line 1: the header names {twice[0]!r} twice", "Give every column its own name.")
    return names


def _csv_fault(error: csv.Error) -> str:
    if "field larger" in str(error):
        return f"a field longer than {MAX_ROW_BYTES:,} characters, the limit of a row (is a quote left open?)"
    if "unexpected end" in str(error):
        return "a quoted field that starts here is never closed"
    return f"broken CSV: {error}"


def read_parquet(path: Path) -> Iterator[Record]:
    """The rows of a Parquet file, numbered from 1.

    Raises:
        DataError: the file is damaged or holds text that is not UTF-8.
    """
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            for batch in table.iter_batches(batch_size=1024):
                for value in batch.to_pylist():
                    number += 1
                    yield number, _with_turns(value)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise DataError(
            f"{path} is not a whole Parquet file (read up to row {number}): {reason}",
            "Write or download the file again; a copy that was cut short looks like this.",
        ) from None


def _with_turns(record: dict[str, Any]) -> dict[str, Any]:
    """A record whose lists of turns, which tables often hold as JSON text, are lists.

    A prompt or an answer may be JSON itself: it stays text unless every element is a turn.
    """
    for name in (*_TURNS, *_TEXT_OR_TURNS):
        if isinstance(cell := record.get(name), str) and cell.lstrip().startswith("["):
            value = _parsed(cell)
            if isinstance(value, list) and value and (name in _TURNS or all(map(_is_turn, value))):
                record[name] = value
    return record


def _parsed(cell: str) -> Any:
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return None


def _is_turn(value: Any) -> bool:
    return isinstance(value, dict) and ("role" in value or "from" in value)
