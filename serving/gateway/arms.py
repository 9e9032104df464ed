"""Which version answers a request: a key that moved to a canary stays there while the canary's weight grows."""

import hashlib
from collections.abc import Iterable

SLOTS = 10_000


def slot(name: str, version: int, key: str) -> int:
    """Where `key` falls for this version, 0 to 9999, evenly over the keys."""
    digest = hashlib.sha256(f"{name}:{version}:{key}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest, "big") % SLOTS


def choose_version(name: str, champion: int, weights: Iterable[tuple[int, float]], key: str) -> int:
    """The first of the versions whose weight (in percent) covers the key's slot, else the champion.

    `weights` stand in the order of their versions. Raising one weight moves keys to that version only.
    """
    for version, percent in weights:
        if slot(name, version, key) < percent * (SLOTS / 100):
            return version
    return champion
