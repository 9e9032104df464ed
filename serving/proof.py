"""Proves, before a version gets traffic, that the engine serves what was trained."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from serving.client import EngineClient, Message
from serving.evidence import Evidence, Probe
from serving.measure import Logprobs, Progress, mean_distance, mean_loss, score_rows, wait_idle
from serving.quick import QUICK_PROBES, QuickRecord, failure, record
from serving.template import check_ends, check_template
from turnout.digests import adapter_sha256

BASE_ROWS = 32
"""So many rows are scored on the base as well: enough to see an effect, and half the time saved."""
NOISE_ROWS = 8
LEAST_EFFECT_NATS = 1e-3


@dataclass(frozen=True)
class Proof:
    """The figures of a passed proof; losses and differences in nats a token.

    `served_base_nats` is the base's loss on the first `base_rows` rows, `served_nats_there` the adapter's on those.
    It counts for the rows of `rows_sha256` and for `trained_nats`; another `tolerance` than then may be set against
    its `difference`.
    """

    name: str
    adapter_sha256: str
    base_sha256: str
    base_name: str
    build: str
    probes: int
    effect_nats: float
    effect_limit: float
    trained_nats: float
    served_nats: float
    difference: float
    tolerance: float
    served_base_nats: float
    served_nats_there: float
    base_rows: int
    rows: int
    rows_sha256: str
    tokens: int
    seconds: float
    proven_at: str
    quick: tuple[QuickRecord, ...]


@dataclass(frozen=True)
class Subject:
    """What is proven: the adapter served as `name` from `folder`, on a base, by an engine's build."""

    name: str
    folder: Path
    adapter_sha256: str
    base_name: str
    base_sha256: str
    build: str


async def prove(
    client: EngineClient, subject: Subject, evidence: Evidence, progress: Progress | None = None
) -> tuple[Proof, Logprobs]:
    """Prove the loaded adapter by template, effect, parity and files; returns its log-probabilities too.

    Raises:
        EngineError: the engine has traffic, or stopped answering.
        ProofFailed: names the rule, the figure and the limit.
    """
    began = time.monotonic()
    await wait_idle(client)
    probes = evidence.probes()
    await check_template(client, subject.name, probes)
    await check_ends(client, subject.name, probes, evidence.rows)
    base = await score_rows(client, subject.base_name, evidence.rows[:BASE_ROWS], progress)
    repeated = await score_rows(client, subject.base_name, evidence.rows[:NOISE_ROWS])
    served = await score_rows(client, subject.name, evidence.rows, progress)
    there = served[:BASE_ROWS]
    effect, effect_limit = check_effect(subject.name, base, repeated, there)
    loss = mean_loss(served)
    check_parity(subject.name, loss.nats, evidence.trained_nats, evidence.tolerance)
    quick = await asyncio.gather(*(record(client, subject.name, messages) for messages in _quick(probes)))
    check_files(subject.name, subject.folder, subject.adapter_sha256)
    proof = Proof(
        **{key: value for key, value in vars(subject).items() if key != "folder"},
        probes=len(probes),
        effect_nats=effect,
        effect_limit=effect_limit,
        trained_nats=evidence.trained_nats,
        served_nats=loss.nats,
        difference=abs(loss.nats - evidence.trained_nats),
        tolerance=evidence.tolerance,
        served_base_nats=mean_loss(base).nats,
        served_nats_there=mean_loss(there).nats,
        base_rows=len(base),
        rows=len(served),
        rows_sha256=evidence.rows_sha256,
        tokens=loss.tokens,
        seconds=round(time.monotonic() - began, 2),
        proven_at=datetime.now(UTC).isoformat(timespec="seconds"),
        quick=tuple(quick),
    )
    return proof, served


def check_files(name: str, folder: Path, registered: str) -> None:
    """Raises ProofFailed when the adapter in `folder` is not, byte for byte, the registered one."""
    try:
        found = adapter_sha256(folder)
    except OSError as error:
        raise failure(name, "files", f"{error.filename} cannot be read: {error.strerror}") from error
    if found != registered:
        raise failure(name, "files", f"{folder} has sha256 {found[:12]}…, registered is {registered[:12]}…")


def check_effect(name: str, base: Logprobs, repeated: Logprobs, served: Logprobs) -> tuple[float, float]:
    """The adapter's distance from the base, and the limit: twice the distance of the base from itself, in nats.

    An adapter that does nothing is as far from the base as the base is from itself, which in bf16 was measured at up
    to 0.06 nats a token, in float32 at hardly anything.

    Raises:
        ProofFailed: it is nearer than that.
    """
    noise = mean_distance(base[: len(repeated)], repeated)
    effect, limit = mean_distance(base, served), max(LEAST_EFFECT_NATS, 2 * noise)
    if not effect >= limit:
        raise failure(
            name,
            "effect",
            f"its log-probabilities differ from the base's by {effect:.5f} nats a token, and must by {limit:.5f}: "
            "the engine serves the base alone, or the adapter does nothing",
        )
    return effect, limit


def check_parity(name: str, served_nats: float, trained_nats: float, tolerance: float) -> None:
    """Raises ProofFailed when the losses differ by more than `tolerance` nats."""
    difference = abs(served_nats - trained_nats)
    # Written so that a NaN, which compares false with everything, fails.
    if not difference <= tolerance:
        raise failure(
            name,
            "parity",
            f"its loss is {served_nats:.4f} nats as served and {trained_nats:.4f} as trained: they differ "
            f"by {difference:.4f}, the limit is {tolerance}",
        )


def _quick(probes: Sequence[Probe]) -> list[list[Message]]:
    """The probes that the quick probe repeats: the shortest prompts, which cost least."""
    return [messages for messages, ids in sorted(probes, key=lambda probe: len(probe[1]))[:QUICK_PROBES]]
