"""Reads JSON and JSONL text into numbered records, and says where the text is broken."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from data.problems import Problems, RowProblem
from turnout.errors import DataError

MAX_ROW_BYTES = 4 * 1024 * 1024
"""Longer rows are refused: about a million tokens, more than models take."""

BOM = b"\xef\xbb\xbf"
_BLANK = " \t\r\n"

Record = tuple[int, Any]
"""A record's line, counted from 1, and its value."""


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def decode(raw: bytes, file: str, offset: int = 0) -> str:
    """UTF-8 text of `raw`, which starts `offset` bytes into the file.

    Raises:
        DataError: it is not UTF-8; the message gives the byte offset in the file.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        at, byte = offset + error.start, raw[error.start]
        guess = " (it looks like UTF-16)" if at == 0 and raw[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise DataError(
            f"{file} is not UTF-8: byte 0x{byte:02x} at offset {at}{guess}",
            "Save the file as UTF-8, for example with `iconv -f OLD_ENCODING -t UTF-8`.",
        ) from None


def read_text(path: Path) -> str:
    raw = path.read_bytes()
    start = len(BOM) if raw.startswith(BOM) else 0
    return decode(raw[start:], str(path), start)


class Line(NamedTuple):
    """The bytes of a JSONL file's line, `offset` bytes into the file."""

    raw: bytes
    offset: int


def jsonl_lines(path: Path, problems: Problems) -> Iterator[tuple[int, Line]]:
    """The lines of a JSONL file that are not blank, not read yet, each with its number."""
    offset = 0
    with open(path, "rb") as file:
        for number, raw in enumerate(iter(lambda: file.readline(MAX_ROW_BYTES + 1), b""), 1):
            if len(raw) > MAX_ROW_BYTES:
                problems.add(number, f"longer than {MAX_ROW_BYTES:,} bytes, the limit of a row")
                return  # the rest of this line cannot be told from the next ones
            start = len(BOM) if number == 1 and raw.startswith(BOM) else 0
            if raw[start:].strip():
                yield number, Line(raw[start:], offset + start)
            offset += len(raw)


def read_line(line: Line, file: str) -> Any:
    """The value of a JSONL line.

    Raises:
        RowProblem: it is no JSON.
        DataError: it is not UTF-8.
    """
    text = decode(line.raw, file, line.offset).strip(_BLANK)
    try:
        value, end = _DECODER.raw_decode(text)
        if end != len(text):
            raise json.JSONDecodeError("extra data", text, end)
    except (ValueError, RecursionError) as error:
        raise RowProblem(_json_fault(error)) from None
    return value


def read_json(text: str, problems: Problems) -> Iterator[Record]:
    """The rows of a JSON text: a list, or an object that holds exactly one list.

    Raises:
        DataError: the object holds no list or several.
    """
    scan = _Scanner(text)
    try:
        if scan.peek() == "[":
            yield from scan.elements(problems)
        else:
            yield from _rows_of_object(scan, problems)
        if scan.peek():
            raise scan.fault("extra data after the end")
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        problems.add(scan.line(getattr(error, "pos", scan.position)), _json_fault(error))


class _Scanner:
    """Walks the top of a JSON text value by value, so that each row's line is known."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self._counted = 0
        self._line = 1

    def peek(self) -> str:
        """The next character that is not blank, or "" at the end."""
        while self.position < len(self.text) and self.text[self.position] in _BLANK:
            self.position += 1
        return self.text[self.position : self.position + 1]

    def take(self, character: str) -> None:
        if self.peek() != character:
            raise self.fault(f"{character!r} expected")
        self.position += 1

    def value(self) -> Any:
        self.peek()
        value, self.position = _DECODER.raw_decode(self.text, self.position)
        return value

    def elements(self, problems: Problems) -> Iterator[Record]:
        """The values of the list that starts here."""
        self.take("[")
        while self.peek() != "]":
            line, start = self.line(self.position), self.position
            value = self.value()
            if self.position - start > MAX_ROW_BYTES:
                problems.add(line, f"longer than {MAX_ROW_BYTES:,} characters, the limit of a row")
            else:
                yield line, value
            if self.peek() != "]":
                self.take(",")
                if self.peek() == "]":
                    raise self.fault("a value expected after ','")
        self.take("]")

    def line(self, position: int) -> int:
        """The line of `position`; cheap while positions grow."""
        if position < self._counted:
            self._counted, self._line = 0, 1
        self._line += self.text.count("\n", self._counted, position)
        self._counted = position
        return self._line

    def fault(self, message: str) -> json.JSONDecodeError:
        return json.JSONDecodeError(message, self.text, self.position)


def _rows_of_object(scan: _Scanner, problems: Problems) -> Iterator[Record]:
    first_line = scan.line(scan.position)
    scan.take("{")
    lists: dict[str, list[Record]] = {}
    others: dict[str, Any] = {}
    while scan.peek() != "}":
        key = scan.value() if scan.peek() == '"' else None
        if key is None:
            raise scan.fault("a key in double quotes expected")
        scan.take(":")
        if scan.peek() == "[":
            lists[key] = list(scan.elements(problems))
        else:
            others[key] = scan.value()
        if scan.peek() != "}":
            scan.take(",")
    scan.take("}")
    if len(lists) == 1 and not lists.keys() & {"messages", "conversations", "conversation", "prompt", "completion"}:
        yield from next(iter(lists.values()))
    elif not lists or lists.keys() & {"messages", "conversations", "conversation", "completion"}:
        yield first_line, others | {key: [value for _, value in records] for key, records in lists.items()}
    else:
        raise DataError(
            f"{problems.file} holds {len(lists)} lists ({', '.join(sorted(map(repr, lists)))}), "
            "and only one can be the rows",
            "Keep one list of rows in the file, or save each list as a file of its own.",
        )


def _json_fault(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "JSON nested too deeply to be read"
    if isinstance(error, json.JSONDecodeError):
        return f"broken JSON: {error.msg} (column {error.colno})"
    return f"broken JSON: {error}"
