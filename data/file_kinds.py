"""Tells which kind of file holds the rows: by content where the content shows it, else by the extension."""

from pathlib import Path

from data.formats import FORMATS
from data.problems import Problems, RowProblem
from data.records import BOM, jsonl_lines, read_line, read_text
from turnout.errors import DataError

_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
}


def file_kind(path: Path) -> str:
    """json, jsonl, csv or parquet.

    Raises:
        DataError: `path` is no file that can be read, is empty or compressed, or shows no kind.
    """
    head, text = _start(path)
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


def _start(path: Path) -> tuple[bytes, bytes]:
    """The first bytes of a file, and those that follow its blanks."""
    try:
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
    return head, text


def _has_an_object_a_line(path: Path) -> bool:
    """Whether a file that starts with an object is JSONL under another name."""
    with open(path, "rb") as file:
        several = len([line for line, _ in zip(file, range(1000), strict=False) if line.strip()]) > 1
    first = next(jsonl_lines(path, Problems(str(path))), None)
    if not several or first is None:
        return False
    try:
        read_line(first[1], str(path))
    except RowProblem:
        return False
    return True
