"""Collects what is wrong with a file, so that one run names several bad rows."""

import reprlib
from typing import Any

from data.checks.personal import mask_personal
from turnout.errors import DataError

SHOWN = 5
"""How many problems of a file an error lists; the others are counted."""


class RowProblem(ValueError):
    """What is wrong with one row; whoever knows its file and line adds them."""


class Problems:
    """The problems of `file`, the `first` of them in words; `place` is what their numbers count."""

    def __init__(self, file: str, place: str = "line") -> None:
        self.file = file
        self.place = place
        self.total = 0
        self.first: list[str] = []

    def add(self, line: int, text: str) -> None:
        self.total += 1
        if len(self.first) < SHOWN:
            self.first.append(f"{self.place} {line}: {mask_personal(text)}")

    def extend(self, other: "Problems") -> None:
        """Add the problems of a later part of the same file."""
        self.total += other.total
        self.first += other.first[: SHOWN - len(self.first)]

    def raise_any(self, next_step: str) -> None:
        """Raises:
        DataError: there is at least one problem.
        """
        if not self.total:
            return
        if self.total == 1:
            raise DataError(f"{self.file}, {self.first[0]}", next_step)
        first = "" if self.total <= SHOWN else f", the first {SHOWN}"
        lines = "".join(f"\n  {problem}" for problem in self.first)
        raise DataError(f"{self.file}: {self.total} problems{first}:{lines}", next_step)


def describe(value: Any) -> str:
    """A value for an error message: its JSON type and a short, printable form."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"a boolean ({str(value).lower()})"
    if isinstance(value, int | float):
        return f"a number ({value})" if abs(value) < 1e300 else "a number"
    if isinstance(value, str):
        shown = mask_personal(value)
        return f"text ({shown[:40]!r}{'…' if len(shown) > 40 else ''})"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return f"an object (keys: {', '.join(repr(str(key)[:40]) for key in list(value)[:8]) or 'none'})"
    return reprlib.repr(value)
