"""The small frozen values that stages pass to each other: where a thing is, and the digest that it must have."""

import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


@dataclass(frozen=True)
class Base:
    """A base model on this disk.

    `id` is what a user calls it (a hub id, or the folder's name), `name` what it answers under on an
    engine, `sha256` the digest of its weights and config. A parity base (linear weights dequantised
    from NF4) is a `Base` too: its name ends in `-nf4` and `parity_of` holds the original's sha256.
    """

    id: str
    name: str
    path: str
    sha256: str
    tokenizer_sha256: str
    template_sha256: str
    eos_ids: tuple[int, ...]
    revision: str | None = None
    parity_of: str | None = None


@dataclass(frozen=True)
class Dataset:
    """Prepared rows: `path` holds `train.parquet` and `validation.parquet`.

    `sha256` is over the normalised conversations that are used, in their order, each with its side of the
    split, so the same rows in another file format are the same dataset. Columns of both files: `messages`
    (JSON text), `prompt_sha256`, `row_sha256`, `input_ids` (list of int32) and `loss_mask` (list of int8,
    1 where the token is part of an answer and counts for the loss).
    `source_sha256` is the digest of the source's bytes.
    """

    path: str
    source: str
    format: str
    sha256: str
    rows: int
    train_rows: int
    validation_rows: int
    too_long: int
    train_tokens: int
    validation_tokens: int
    longest: int
    template_sha256: str
    notes: tuple[str, ...] = ()
    source_sha256: str = ""

    @property
    def train_file(self) -> Path:
        return Path(self.path) / "train.parquet"

    @property
    def validation_file(self) -> Path:
        return Path(self.path) / "validation.parquet"


@dataclass(frozen=True)
class Adapter:
    """A trained LoRA adapter: `path` holds `adapter_config.json` and `adapter_model.safetensors` alone."""

    path: str
    adapter_sha256: str
    bytes: int
    rank: int
    alpha: float
    dropout: float
    target_modules: tuple[str, ...]
    base_sha256: str
    train_digest: str
    trainable_params: int
    total_params: int
    train_loss: float
    steps: int
    train_seconds: float
    hardware: str
    libraries: dict[str, str] = field(default_factory=dict)
    peak_memory_bytes: int = 0


@dataclass(frozen=True)
class Loss:
    """Token-weighted mean negative log-likelihood of the answers, in nats a token."""

    nats: float
    tokens: int
    rows: int

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.nats, 700.0))


@dataclass(frozen=True)
class Sample:
    """One validation prompt and the greedy answers to it, side by side."""

    prompt: str
    expected: str
    base: str
    candidate: str
    champion: str | None = None


@dataclass(frozen=True)
class Answer:
    """What the engine answered, greedily, to one validation prompt.

    `finish_reason` is the engine's: "stop" where the answer ended by itself, "length" where it was cut off.
    """

    row_sha256: str
    prompt: str
    expected: str
    text: str
    finish_reason: str
    tokens: int


@dataclass(frozen=True)
class Scores:
    """Losses on the same validation tokens.

    `base`, `candidate` and `champion` are measured at training precision (NF4); `*_original` in bf16 on
    the base as it was published, so that the price of either choice of served base is known. `rows_path` is
    the file with each row's loss.

    `own_champion` and `own_candidate` are the losses on the champion's own validation rows, without the
    `own_left_out` ones whose prompts the candidate was trained on; `own_note` says why they are None.
    """

    base: Loss
    candidate: Loss
    champion: Loss | None
    base_original: Loss
    candidate_original: Loss
    samples: tuple[Sample, ...] = ()
    rows_path: str = ""
    own_champion: Loss | None = None
    own_candidate: Loss | None = None
    own_left_out: int = 0
    own_note: str = ""


def to_json(reference: Any) -> dict[str, Any]:
    """A reference as plain JSON values; `from_json` is its inverse."""
    kind: Any = type(reference)
    return _adapter(kind).dump_python(reference, mode="json")


def from_json(kind: type[T], value: Any) -> T:
    """Rebuild a reference, nested ones and tuples included.

    Raises:
        pydantic.ValidationError: the value was written by another version of Turnout.
    """
    known: Any = kind
    return _adapter(known).validate_python(value)


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """Building one takes milliseconds, and the reconciler reads references in every pass."""
    return TypeAdapter(kind)
