"""Puts each prompt on one side of the split, by its digest alone.

A prompt's side depends on nothing but the prompt and the fraction, so it stays when rows are added, and equal
prompts are always on the same side. The one exception: where that would leave a side empty (the smallest sets),
one prompt is moved. When rows are added later and the side is no longer empty, that prompt goes back.
"""

import hashlib
from collections.abc import Collection

from turnout.errors import DataError

_SALT = "turnout/validation/1:"


def position(prompt_sha256: str) -> float:
    """Where a prompt stands in [0, 1); below the fraction is validation."""
    digest = hashlib.sha256((_SALT + prompt_sha256).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def is_validation(prompt_sha256: str, fraction: float) -> bool:
    return position(prompt_sha256) < fraction


def split(prompts: Collection[str], fraction: float) -> tuple[frozenset[str], str | None]:
    """The prompts (their sha256) that are validation, and a note if one had to be moved.

    Raises:
        DataError: fewer than two distinct prompts.
    """
    distinct = sorted(set(prompts), key=lambda prompt: (position(prompt), prompt))
    if len(distinct) < 2:
        raise DataError(
            f"{len(distinct)} distinct prompt to split; at least 2 are needed, one to train and one to validate on",
            "Add rows with other prompts.",
        )
    chosen = [prompt for prompt in distinct if is_validation(prompt, fraction)]
    if not chosen:
        note = (
            f"none of the {len(distinct)} prompts fell into validation at validation_fraction={fraction}; "
            "the one with the smallest hash was moved there, and may move back when rows are added"
        )
        return frozenset(distinct[:1]), note
    if len(chosen) == len(distinct):
        note = (
            f"all {len(distinct)} prompts fell into validation at validation_fraction={fraction}; "
            "the one with the largest hash was moved to training, and may move back when rows are added"
        )
        return frozenset(distinct[:-1]), note
    return frozenset(chosen), None
