"""Reads a dataset file of any known kind into conversations."""

from collections.abc import Iterator
from pathlib import Path

from data.conversation import Row, Rows
from data.formats import FORMATS, PREFERENCE, USED_COLUMNS, convert, detect
from data.problems import Problems, RowProblem, describe
from data.records import BOM, Record, read_json, read_jsonl, read_text
from data.tables import read_csv, read_parquet
from turnout.errors import DataError

_FIX_ROWS = "Fix or remove these rows."
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
}


def read_rows(path: Path) -> Rows:
    """Every row of `path` (JSON, JSONL, CSV, Parquet), in its order.

    Raises:
        DataError: the file is not there, is empty or broken, mixes formats, or a row cannot be trained on.
            Up to five bad rows are named with their lines.
    """
    kind = _kind(path)
    problems = Problems(str(path), "row" if kind == "parquet" else "line")
    rows: list[Row] = []
    seen: dict[str, int] = {}
    ignored: set[str] = set()
    for line, record in _records(path, kind, problems):
        try:
            if not isinstance(record, dict):
                raise RowProblem(f"{describe(record)}, not an object")
            rows.append(Row(_conversation(record, line, seen, problems), line))
            ignored |= record.keys() - USED_COLUMNS
        except RowProblem as problem:
            problems.add(line, str(problem))
        except RecursionError:
            problems.add(line, "JSON nested too deeply to be read")
    _refuse_mixed(seen, problems)
    problems.raise_any(_FIX_ROWS)
    if not rows:
        raise DataError(f"{path} holds no rows", f"Write at least two rows to it, as {FORMATS}.")
    notes = (f"ignored columns: {', '.join(sorted(map(str, ignored)))}",) if ignored else ()
    return Rows(next(iter(seen)), rows, str(path), problems.place, notes)


def _conversation(record: dict, line: int, seen: dict[str, int], problems: Problems) -> tuple:
    kind = detect(record)
    if kind == PREFERENCE:
        raise DataError(
            f"{problems.file}, {problems.place} {line}: a preference row (chosen/rejected), "
            "and Turnout trains on answers only",
            f"Keep the chosen answers, as {FORMATS}.",
        )
    if kind is None:
        keys = ", ".join(repr(str(key)[:40]) for key in list(record)[:12]) or "none"
        raise RowProblem(f"no known format: its keys are {keys}; known: {FORMATS}")
    seen.setdefault(kind, line)
    return convert(record, kind)


def _refuse_mixed(seen: dict[str, int], problems: Problems) -> None:
    if len(seen) > 1:
        where = ", ".join(f"{kind} ({problems.place} {line})" for kind, line in seen.items())
        raise DataError(f"{problems.file} mixes formats, first seen: {where}", "Keep one format a file.")


def _kind(path: Path) -> str:
    """json, jsonl, csv or parquet: by content where the content shows it, else by the extension."""
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder, not a file", "Name the file in it that holds the rows.")
        if not path.exists():
            raise DataError(f"{path} is not there", "Check data.path; it is relative to the current folder.")
        if not path.is_file():
            raise DataError(f"{path} is not a regular file", "Save the rows to a file first.")
        with open(path, "rb") as file:
            head = file.read(4096)
            text = head.removeprefix(BOM).lstrip()
            while not text and (block := file.read(1 << 20)):
                text = block.lstrip()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", "Check its name and its permissions.") from None
    suffix = path.suffix.lower()
    if not text:
        raise DataError(f"{path} is empty ({path.stat().st_size} bytes)", f"Write rows to it, as {FORMATS}.")
    for magic, name in _COMPRESSED.items():
        if head.startswith(magic):
            raise DataError(f"{path} is compressed ({name})", "Unpack it first.")
    if head.startswith(b"PAR1") or suffix in (".parquet", ".pq"):
        return "parquet"
    if suffix in (".csv", ".tsv"):
        return "csv"
    if text.startswith(b"["):
        return "json"
    if suffix in (".jsonl", ".ndjson"):
        return "jsonl"
    if text.startswith(b"{"):
        return "jsonl" if _has_an_object_a_line(path) else "json"
    if suffix == ".json":
        return "json"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        read_text(path)
    raise DataError(
        f"{path} has the extension {suffix or '(none)'}, and its content shows no format",
        "Save the rows as .jsonl, .json, .csv or .parquet.",
    )


def _has_an_object_a_line(path: Path) -> bool:
    """Whether a file that starts with an object is JSONL under another name."""
    probe = Problems(str(path))
    with open(path, "rb") as file:
        several = len([line for line, _ in zip(file, range(1000), strict=False) if line.strip()]) > 1
    first = next(read_jsonl(path, probe), None)
    return several and first is not None and not probe.total


def _records(path: Path, kind: str, problems: Problems) -> Iterator[Record]:
    match kind:
        case "jsonl":
            return read_jsonl(path, problems)
        case "json":
            return read_json(read_text(path), problems)
        case "csv":
            return read_csv(path, problems)
        case _:
            return read_parquet(path)
