"""What a bench found: one shape for all of them, its file, and the comparison of two."""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from turnout.errors import BadInput, NotFound
from turnout.references import from_json

Row = dict[str, Any]
"""One configuration's figures; `configuration` names it, `users` says how many asked at a time where that varies."""

PARTS = ("model", "adapter", "quantisation", "versions", "hardware", "settings")
"""In what two results of one bench may differ; `compare` lets them only where it is told to."""


@dataclass(frozen=True)
class Subject:
    """What was measured, with what, on what, and when (`date`: UTC, ISO 8601).

    `adapter` is the served name, empty where the base alone was measured. `hardware` holds nothing that changes from
    one run to the next on the same machine.
    """

    model: str
    base_sha256: str
    versions: dict[str, str]
    hardware: dict[str, Any]
    date: str
    adapter: str = ""
    adapter_sha256: str = ""
    quantisation: str = ""


@dataclass(frozen=True)
class Result:
    """`rows` are the figures, `notes` what their reader must know, `series` what was sampled over time.

    Units stand in the names: `_ms`, `_s`, `_bytes`, `_percent`, `_per_s`.
    """

    bench: str
    subject: Subject
    settings: dict[str, Any]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    series: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def read_result(path: Path) -> Result:
    """The result in a JSON file that a bench wrote.

    Raises:
        NotFound: there is no such file.
        BadInput: it holds something else.
    """
    try:
        return from_json(Result, json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}", "Give the JSON file that a bench wrote.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not a bench's result: {_fault(error)}", "Give its JSON file.") from None


def _fault(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"{error!s:.300}"
    first, more = error.errors()[0], error.error_count() - 1
    place = ".".join(map(str, first["loc"]))
    return f"{place}{': ' if place else ''}{first['msg']}{f', and {more} faults more' if more else ''}"


def compare(a: Result, b: Result, across: Collection[str] = ()) -> list[Row]:
    """The figures of `b` over those of `a`, a row for each configuration that both have.

    Args:
        across: the `PARTS` in which the two may differ.

    Raises:
        BadInput: they differ in something else; every difference is named.
    """
    if unknown := sorted(set(across) - set(PARTS)):
        raise BadInput(f"results cannot be compared across {', '.join(unknown)}", f"Known: {', '.join(PARTS)}.")
    if a.bench != b.bench:
        raise BadInput(f"one result is of bench {a.bench}, the other of {b.bench}", "Compare results of one bench.")
    mine, other = _parts(a), _parts(b)
    found = {part: _differences(mine[part], other[part], part) for part in PARTS if part not in across}
    if unlike := [line for lines in found.values() for line in lines]:
        parts = [part for part, lines in found.items() if lines]
        raise BadInput(
            "the two results are of unlike runs:\n" + "\n".join(f"  {line}" for line in unlike),
            "Measure both alike, or say that the difference is what you want to see: "
            + " ".join(f"--across {part}" for part in parts),
        )
    theirs = {_key(row): row for row in b.rows}
    ratios = [_ratios(row, theirs[_key(row)]) for row in a.rows if _key(row) in theirs]
    if not ratios:
        names = ", ".join(sorted({str(row.get("configuration")) for row in (*a.rows, *b.rows)}))
        raise BadInput(f"the two results have no configuration in common: {names}", "Run both with the same --users.")
    return ratios


def _parts(result: Result) -> dict[str, dict[str, Any]]:
    subject = result.subject
    return {
        "model": {"name": subject.model, "sha256": subject.base_sha256},
        "adapter": {"name": subject.adapter, "sha256": subject.adapter_sha256},
        "quantisation": {"": subject.quantisation},
        "versions": subject.versions,
        "hardware": subject.hardware,
        "settings": result.settings,
    }


def _differences(mine: dict[str, Any], other: dict[str, Any], part: str) -> list[str]:
    keys = dict.fromkeys((*mine, *other))
    return [
        f"{f'{part} {key}'.strip()}: {_told(mine.get(key))} against {_told(other.get(key))}"
        for key in keys
        if mine.get(key) != other.get(key)
    ]


def _told(value: Any) -> str:
    return "none" if value is None or value == "" else f"{value}"


def _key(row: Row) -> tuple[Any, Any]:
    return row.get("configuration"), row.get("users")


def _ratios(mine: Row, other: Row) -> Row:
    row: Row = {key: mine[key] for key in ("configuration", "users") if key in mine}
    for name, value in mine.items():
        if name not in row and _is_number(value) and _is_number(other.get(name)) and value:
            row[name] = other[name] / value
    return row


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
