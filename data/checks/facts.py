"""What is kept of a batch of rows for the checks: a few numbers a row, and a sample of texts."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from data.checks.answers import gives_away, is_damaged, truncation
from data.checks.personal import KINDS, find_personal, mask_personal
from data.checks.words import signatures
from data.conversation import Message, Row
from data.split import position

SAMPLE = 1000
"""Rows whose texts are kept, those with the smallest digests: for the languages and the pairing of answers."""
_SAMPLE_CHARACTERS = 1000
_LABEL_CHARACTERS = 40
_MAX_LABELS = 200
_EXAMPLES = 5


@dataclass(frozen=True)
class Sampled:
    """The start of a row's prompt and answer, without system turns."""

    row: int
    prompt: str
    answer: str


@dataclass(frozen=True)
class Facts:
    """Of one batch: `columns` by name, one array element a row (`data.checks.columns.COLUMNS` says what they are).

    `labels` counts the short answers, and is None where they are too many to be labels. `examples` are texts by
    check, each with its row's index in the batch.
    """

    columns: dict[str, Any]
    sample: list[Sampled]
    labels: Counter[str] | None
    examples: dict[str, list[tuple[int, str]]] = field(default_factory=dict)


def compared_text(prompt: Sequence[Message]) -> str:
    """What two prompts are compared by: all turns but the system's, which many rows share."""
    return "\n".join(turn.content for turn in prompt if turn.role != "system")


def examine(
    rows: Sequence[Row],
    digests: Sequence[tuple[str, str]],
    tokens: Sequence[tuple[int, int]],
    common: frozenset[str],
    cutoff: int = 1 << 64,
) -> Facts:
    """The facts of `rows`; for each, `digests` holds its prompt's and its own sha256, `tokens` all and the answers'.

    `common` are shingles to leave out; texts are sampled of rows whose digest is under `cutoff`.
    """
    import numpy as np

    prompts = [compared_text(row.prompt) for row in rows]
    answers = [row.messages[-1].content for row in rows]
    examples: dict[str, list[tuple[int, str]]] = {}
    flags = [_flags(index, row, examples) for index, row in enumerate(rows)]
    bands, signature = signatures(prompts, common)
    own = [int(row[:16], 16) for _, row in digests]
    columns = {
        "row": np.array(own, dtype=np.uint64),
        "prompt": np.array([int(prompt[:16], 16) for prompt, _ in digests], dtype=np.uint64),
        "answer": np.array([_digest(answer) for answer in answers], dtype=np.uint64),
        "position": np.array([position(prompt) for prompt, _ in digests], dtype=np.float64),
        "tokens": np.array([every for every, _ in tokens], dtype=np.int32),
        "answer_tokens": np.array([answer for _, answer in tokens], dtype=np.int32),
        "line": np.array([row.line for row in rows], dtype=np.int64),
        "flags": np.array(flags, dtype=np.uint16).reshape(len(rows), 4),
        "bands": bands,
        "signature": signature,
    }
    sample = [
        Sampled(digest, prompt[:_SAMPLE_CHARACTERS], answer[:_SAMPLE_CHARACTERS])
        for digest, prompt, answer in zip(own, prompts, answers, strict=True)
        if digest < cutoff
    ]
    labels = Counter(answer for answer in answers if len(answer) <= _LABEL_CHARACTERS)
    return Facts(columns, smallest(sample), labels if len(labels) <= _MAX_LABELS else None, examples)


def smallest(sample: list[Sampled]) -> list[Sampled]:
    """At most `SAMPLE` of them, each row once, by digest: the same whatever order the rows came in."""
    return sorted({item.row: item for item in sample}.values(), key=lambda item: item.row)[:SAMPLE]


def merged_labels(one: Counter[str] | None, two: Counter[str] | None) -> Counter[str] | None:
    if one is None or two is None:
        return None
    both = one + two
    return both if len(both) <= _MAX_LABELS else None


def _flags(index: int, row: Row, examples: dict[str, list[tuple[int, str]]]) -> tuple[int, int, int, int]:
    """How truncated, whether the prompt gives the answer away, whether damaged, and the kinds of personal data."""
    answer = row.messages[-1].content
    before = "\n".join(turn.content for turn in row.prompt)
    text = f"{before}\n{answer}"
    cut, given, damaged = truncation(answer), gives_away(before, answer), is_damaged(text)
    personal = find_personal(text)
    for name, speaks in (("truncated", cut), ("answer_in_prompt", given)):
        if speaks:
            _keep(examples, name, index, lambda: f"…{mask_personal(answer)[-60:]!r}")
    if damaged:
        _keep(examples, "damaged", index, lambda: _damage(mask_personal(text)))
    if personal:
        _keep(
            examples, "personal_data", index, lambda: ", ".join(f"{kind} {shown}" for kind, shown in personal.items())
        )
    return cut, given, damaged, sum(1 << KINDS.index(kind) for kind in personal)


def _keep(examples: dict[str, list[tuple[int, str]]], name: str, index: int, text: Callable[[], str]) -> None:
    kept = examples.setdefault(name, [])
    if len(kept) < _EXAMPLES:
        kept.append((index, text()))


def _damage(text: str) -> str:
    from ftfy.badness import BADNESS_RE

    match = BADNESS_RE.search(text)
    at = match.start() if match else max(0, text.find("\ufffd"))
    return repr(text[max(0, at - 20) : at + 40])


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
