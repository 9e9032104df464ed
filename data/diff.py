"""Compares the rows of two sources: what was added, what was removed, and which prompts got another answer."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from data.conversation import Row, conversation_sha256
from data.read import read_rows

SHOWN = 5
"""How many rows of each kind a difference shows."""


@dataclass(frozen=True)
class Example:
    """A row that differs: the turn before its last answer, and that answer in either source, None where it is not."""

    prompt: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Difference:
    """How many rows were added, removed, changed (same prompt, another answer) or stayed, in whatever order."""

    added: int
    removed: int
    changed: int
    unchanged: int
    examples: dict[str, list[Example]]


def diff(before: Path, after: Path) -> Difference:
    """Compare two sources, each a file or a folder of files. A row that stands there twice counts twice.

    Raises:
        DataError: one of them cannot be read, or holds a row that cannot be trained on.
    """
    old, new = _read(before), _read(after)
    gone, come = _without(old, new), _without(new, old)
    answers: defaultdict[str, list[Row]] = defaultdict(list)
    for row in come:
        answers[conversation_sha256(row.prompt)].append(row)
    removed, changed = list[Row](), list[tuple[Row, Row]]()
    for row in gone:
        others = answers[conversation_sha256(row.prompt)]
        if others:
            changed.append((row, others.pop(0)))
        else:
            removed.append(row)
    added = [row for rows in answers.values() for row in rows]
    examples = {
        "added": [Example(_asked(row), None, _answer(row)) for row in added[:SHOWN]],
        "removed": [Example(_asked(row), _answer(row), None) for row in removed[:SHOWN]],
        "changed": [Example(_asked(row), _answer(row), _answer(now)) for row, now in changed[:SHOWN]],
    }
    return Difference(len(added), len(removed), len(changed), len(old) - len(gone), examples)


_Rows = list[tuple[str, Row]]
"""Rows with the digests of their content, in their order."""


def _read(source: Path) -> _Rows:
    return [(conversation_sha256(row.messages), row) for row in read_rows(source).rows]


def _without(rows: _Rows, others: _Rows) -> list[Row]:
    """What of `rows` is not in `others`, each as often as it is missing there."""
    there = Counter(content for content, _ in others)
    missing = []
    for content, row in rows:
        if there[content]:
            there[content] -= 1
        else:
            missing.append(row)
    return missing


def _asked(row: Row) -> str:
    return row.prompt[-1].content


def _answer(row: Row) -> str:
    return row.messages[-1].content
