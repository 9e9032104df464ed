"""What training knows of an adapter, given to a proof and kept beside it, so that it can be proven again alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from serving.answers import Question
from serving.client import Message
from serving.measure import ScoredRow
from turnout.digests import canonical_json, json_sha256
from turnout.files import read_state, write_atomically
from turnout.paths import Home
from turnout.references import to_json

Probe = tuple[list[Message], list[int]]
"""A conversation, and the token ids that training made of it."""


@dataclass(frozen=True)
class Evidence:
    """What training knows: the rows it scored, the loss in nats there, the ids of probes, and what may differ.

    `probes` is called for a full proof only: rendering them takes a tokenizer. `questions` are what the engine is to
    answer once the version is proven.
    """

    rows: Sequence[ScoredRow]
    trained_nats: float
    probes: Callable[[], Sequence[Probe]]
    tolerance: float
    questions: Sequence[Question] = ()

    @property
    def rows_sha256(self) -> str:
        return json_sha256(sorted(row.row_sha256 for row in self.rows))


@dataclass(frozen=True)
class KeptRow:
    """A scored row without its text."""

    row_sha256: str
    input_ids: list[int]
    loss_mask: list[int]


@dataclass(frozen=True)
class _Kept:
    rows: tuple[KeptRow, ...]
    trained_nats: float
    tolerance: float
    probes: tuple[Probe, ...]


def keep_evidence(home: Home, adapter_sha256: str, base_sha256: str, evidence: Evidence) -> None:
    """Write down what another build of the engine is to be proven by; the questions are not kept."""
    rows = tuple(KeptRow(row.row_sha256, list(row.input_ids), list(row.loss_mask)) for row in evidence.rows)
    kept = _Kept(rows, evidence.trained_nats, evidence.tolerance, tuple(evidence.probes()))
    write_atomically(_file(home, adapter_sha256, base_sha256), canonical_json(to_json(kept)) + "\n")


def kept_evidence(home: Home, adapter_sha256: str, base_sha256: str) -> Evidence | None:
    """The evidence of the latest proof of an adapter on a base, by whichever build; None where none was kept."""
    kept = read_state(_file(home, adapter_sha256, base_sha256), _Kept)
    return Evidence(kept.rows, kept.trained_nats, lambda: kept.probes, kept.tolerance) if kept else None


def _file(home: Home, adapter_sha256: str, base_sha256: str) -> Path:
    return home.proofs / f"{adapter_sha256[:16]}-{base_sha256[:16]}.evidence"
