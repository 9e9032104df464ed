"""Reads a dataset file, or a folder of them, of any known kind into conversations."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.conversation import Message, Row, Rows
from data.file_kinds import file_kind
from data.formats import FORMATS, PREFERENCE, USED_COLUMNS, convert, detect
from data.problems import Problems, RowProblem, describe
from data.records import Line, jsonl_lines, read_json, read_line, read_text
from data.source import source_files
from data.tables import read_csv, read_parquet
from turnout.errors import DataError

_FIX_ROWS = "Fix or remove these rows."


@dataclass(frozen=True)
class SourceFile:
    """One file of a source: its `kind` (json, jsonl, csv, parquet) and what its rows' numbers count (`place`)."""

    path: Path
    kind: str
    place: str


def open_source(path: Path) -> list[SourceFile]:
    """The files of a source: one, or a folder's.

    Raises:
        DataError: one of them is not there, is empty or not of a known kind.
    """
    files = source_files(path)
    kinds = [file_kind(file) for file in files]
    counted = ["row" if kind == "parquet" else "line" for kind in kinds]
    return [
        SourceFile(file, kind, f"{file.name}, {unit}" if path.is_dir() else unit)
        for file, kind, unit in zip(files, kinds, counted, strict=True)
    ]


def raw_records(file: SourceFile, problems: Problems) -> Iterator[tuple[int, Any]]:
    """The numbered records of a file; a JSONL file's are lines that are not read yet."""
    match file.kind:
        case "jsonl":
            return jsonl_lines(file.path, problems)
        case "json":
            return read_json(read_text(file.path), problems)
        case "csv":
            return read_csv(file.path, problems)
        case _:
            return read_parquet(file.path)


class RowReader:
    """Turns the records of one source into rows; what cannot be goes to `problems`.

    `formats` are those seen, each with where it was first, and `ignored` the columns that no format reads.
    """

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.formats: dict[str, str] = {}
        self.ignored: set[str] = set()

    def row(self, file: SourceFile, number: int, line: int, record: Any) -> Row | None:
        """The row that `record` holds, in the source's file `number`.

        Raises:
            DataError: it is a preference row, or not UTF-8.
        """
        self.problems.place = file.place
        try:
            if isinstance(record, Line):
                record = read_line(record, str(file.path))
            if not isinstance(record, dict):
                raise RowProblem(f"{describe(record)}, not an object")
            row = Row(self._conversation(record, line), line, number)
            self.ignored |= record.keys() - USED_COLUMNS
        except RowProblem as problem:
            self.problems.add(line, str(problem))
        except RecursionError:
            self.problems.add(line, "JSON nested too deeply to be read")
        else:
            return row
        return None

    def merge(self, other: "RowReader") -> None:
        """Take over what the reader of a later part of the source saw."""
        self.problems.extend(other.problems)
        self.formats = other.formats | self.formats
        self.ignored |= other.ignored

    def refuse_mixed(self) -> None:
        """Raises:
        DataError: the rows are of more than one format.
        """
        if len(self.formats) > 1:
            where = ", ".join(f"{kind} ({place})" for kind, place in self.formats.items())
            raise DataError(f"{self.problems.file} mixes formats, first seen: {where}", "Keep one format a source.")

    def refuse_empty(self) -> None:
        """Raises:
        DataError: not one record of a known format was seen.
        """
        if not self.formats and not self.problems.total:
            raise DataError(f"{self.problems.file} holds no rows", f"Write at least two rows to it, as {FORMATS}.")

    @property
    def notes(self) -> tuple[str, ...]:
        return (f"ignored columns: {', '.join(sorted(map(str, self.ignored)))}",) if self.ignored else ()

    def _conversation(self, record: dict[str, Any], line: int) -> tuple[Message, ...]:
        kind = detect(record)
        if kind == PREFERENCE:
            raise DataError(
                f"{self.problems.file}, {self.problems.place} {line}: a preference row (chosen/rejected), "
                "and Turnout trains on answers only",
                f"Keep the chosen answers, as {FORMATS}.",
            )
        if kind is None:
            keys = ", ".join(repr(str(key)[:40]) for key in list(record)[:12]) or "none"
            raise RowProblem(f"no known format: its keys are {keys}; known: {FORMATS}")
        self.formats.setdefault(kind, f"{self.problems.place} {line}")
        return convert(record, kind)


def read_rows(path: Path) -> Rows:
    """Every row of the file or folder `path` (JSON, JSONL, CSV, Parquet), in its order, a folder's by file name.

    Raises:
        DataError: a file is not there, is empty or broken, mixes formats, or a row cannot be trained on.
            Up to five bad rows are named with their lines.
    """
    files = open_source(path)
    problems = Problems(str(path))
    reader = RowReader(problems)
    rows: list[Row] = []
    for number, file in enumerate(files):
        problems.place = file.place
        for line, record in raw_records(file, problems):
            if (row := reader.row(file, number, line, record)) is not None:
                rows.append(row)
    reader.refuse_mixed()
    problems.raise_any(_FIX_ROWS)
    reader.refuse_empty()
    return Rows(next(iter(reader.formats)), rows, str(path), tuple(file.place for file in files), reader.notes)
