"""Rows of figures as people read them: units beside the names, digits that mean something."""

from collections.abc import Mapping, Sequence
from typing import Any

_UNITS = {
    "_bytes": ("MB", 1e-6),
    "_ms": ("ms", 1.0),
    "_per_s": ("/s", 1.0),
    "_percent": ("%", 1.0),
    "_s": ("s", 1.0),
}


def shown(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """`rows` with readable column names and rounded numbers."""
    return [dict(_cell(name, value) for name, value in row.items()) for row in rows]


def label(name: str) -> str:
    """`tokens_per_s` as `tokens/s`, `p99_ms` as `P99, ms`."""
    return _cell(name, None)[0]


def markdown_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of a Markdown table of `rows`, whose keys may differ."""
    if not rows:
        return ["none"]
    head = list(dict.fromkeys(key for row in rows for key in row))
    body = ["| " + " | ".join(_text(row.get(key)) for key in head) + " |" for row in rows]
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *body]


def _cell(name: str, value: Any) -> tuple[str, Any]:
    ending = next((ending for ending in _UNITS if name.endswith(ending)), None)
    if ending is None:
        return _words(name), _rounded(value)
    unit, factor = _UNITS[ending]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    words = _words(name.removesuffix(ending))
    return f"{words}{unit}" if unit == "/s" else f"{words}, {unit}", _rounded(value * factor if number else value)


def _words(name: str) -> str:
    known = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "kv": "KV", "cpu": "CPU", "gpu": "GPU"}
    return " ".join(
        known.get(word, word.upper() if word[0] == "p" and word[1:].isdigit() else word) for word in name.split("_")
    )


def _rounded(value: Any) -> Any:
    if not isinstance(value, float) or value == 0 or value != value:
        return value
    return round(value) if abs(value) >= 1000 else float(f"{value:.3g}")


def _text(value: Any) -> str:
    return "" if value is None else " ".join(str(value).split()).replace("|", "\\|")
