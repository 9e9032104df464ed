"""The words of a prompt, and signatures that make nearly equal prompts findable (MinHash, banded)."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

# Scripts written without spaces: every character counts as a word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")

BANDS = 12
"""With 5 hashes a band, of two prompts that are 0.8 alike 99 % meet in a band, of two that are 0.5 alike a third."""
_HASHES_A_BAND = 5
HASHES = 64
_SEED = 20_251_201
_COMMON = 0.25
_LEAST_PROMPTS = 40


def words(text: str) -> list[str]:
    """The words of `text`, whatever their case, width and punctuation."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _WORD.findall(plain.lower())


def shingles(text: str) -> list[str]:
    """Words and pairs of neighbours: what two prompts are compared by."""
    found = words(text)
    return [*found, *(f"{one} {two}" for one, two in pairwise(found))] or [text.strip()]


def common_shingles(prompts: Iterable[str]) -> frozenset[str]:
    """What stands in over a quarter of the distinct prompts: a template's words, which make no two prompts alike."""
    distinct = set(prompts)
    if len(distinct) < _LEAST_PROMPTS:
        return frozenset()
    seen = Counter(shingle for prompt in distinct for shingle in set(shingles(prompt)))
    return frozenset(shingle for shingle, count in seen.items() if count > _COMMON * len(distinct))


def signatures(prompts: Sequence[str], common: frozenset[str]) -> tuple[Any, Any]:
    """Arrays of (prompts, BANDS) uint64 and (prompts, HASHES) uint8: keys to meet by, and the low bytes to compare.

    Two low bytes are equal by chance once in 256, which `data.checks.near` allows for.
    """
    import numpy as np
    from rensa import RMinHash

    sets = []
    for prompt in prompts:
        every = shingles(prompt)
        sets.append([shingle for shingle in every if shingle not in common] or every)
    rows = RMinHash.digest_matrix_from_token_sets(sets, HASHES, _SEED).to_rows()
    digests = np.array(rows, dtype=np.uint64).reshape(len(prompts), HASHES)
    parts = digests[:, : BANDS * _HASHES_A_BAND].reshape(len(prompts), BANDS, _HASHES_A_BAND)
    keys = np.zeros((len(prompts), BANDS), dtype=np.uint64)
    for part in range(_HASHES_A_BAND):
        keys = (keys ^ parts[:, :, part]) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(29)
    return keys, digests.astype(np.uint8)
