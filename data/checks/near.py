"""Finds rows with nearly equal prompts: those that meet in a band are compared by their whole signatures."""

from collections.abc import Iterator
from typing import Any

from data.checks.columns import Columns
from data.checks.words import BANDS

_PAIRS_AT_A_TIME = 100_000
_BY_CHANCE = 1 / 256
"""How often two signatures' low bytes are equal although the hashes are not."""


def repeats(digests: Any) -> Any:
    """For every row the first row with the same digest; its own number where it is the first."""
    import numpy as np

    _, first, group = np.unique(digests, return_index=True, return_inverse=True)
    return first[group]


def near_rows(columns: Columns, candidates: Any, similarity: float) -> Any:
    """For every row an earlier row whose prompt is nearly equal, or -1; only rows in the mask `candidates` count."""
    import numpy as np

    found = np.full(columns.rows, -1)
    rows = np.flatnonzero(candidates)
    for order, first in _bands(columns, rows):
        # The rows of a group are in their order, so the group's first is the earlier one.
        _compare(columns, order[order != first], first[order != first], similarity, found)
    return found


def leaks(columns: Columns, validation: Any, similarity: float) -> Any:
    """For every row of the mask `validation` a training row whose prompt is nearly equal, or -1."""
    import numpy as np

    found = np.full(columns.rows, -1)
    for order, first in _bands(columns, np.arange(columns.rows)):
        training = ~validation[order]
        ends = np.flatnonzero(np.append(first[1:] != first[:-1], True))
        starts = np.append(0, ends[:-1] + 1)
        group = np.repeat(np.arange(len(ends)), ends - starts + 1)
        places = np.arange(len(order))
        # The first and the last training row of a group stand for all: nearly equal ones meet in other bands too.
        low = np.minimum.reduceat(np.where(training, places, len(order)), starts)[group]
        high = np.maximum.reduceat(np.where(training, places, -1), starts)[group]
        held = ~training & (high >= 0)
        for chosen in (low, high):
            _compare(columns, order[held], order[chosen[held]], similarity, found)
    return found


def _bands(columns: Columns, rows: Any) -> Iterator[tuple[Any, Any]]:
    """For each band: the rows that share a key with another, grouped, and each one's group's first row."""
    import numpy as np

    for band in range(BANDS if len(rows) else 0):
        keys = columns.load(f"bands{band}")[rows]
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        new = np.append(True, keys[1:] != keys[:-1])
        shared = ~(new & np.append(new[1:], True))
        group = np.cumsum(new) - 1
        first = rows[order[np.flatnonzero(new)]][group]
        if shared.any():
            yield rows[order[shared]], first[shared]


def _compare(columns: Columns, rows: Any, others: Any, similarity: float, found: Any) -> None:
    signatures = columns.signatures()
    for start in range(0, len(rows), _PAIRS_AT_A_TIME):
        mine, theirs = rows[start : start + _PAIRS_AT_A_TIME], others[start : start + _PAIRS_AT_A_TIME]
        new = found[mine] < 0
        mine, theirs = mine[new], theirs[new]
        equal = (signatures[mine] == signatures[theirs]).mean(axis=1)
        alike = (equal - _BY_CHANCE) / (1 - _BY_CHANCE) >= similarity
        found[mine[alike]] = theirs[alike]
