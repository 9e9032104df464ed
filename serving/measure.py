"""Measures, on an engine, how likely it finds the tokens of prepared rows."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from serving.client import EngineClient
from turnout.errors import EngineError

CONCURRENCY = 16
"""Requests in flight while rows are scored: the engine batches them."""

Logprobs = list[list[float]]
"""For each row, the log-probability in nats of each token that counts for the loss."""

Progress = Callable[[str, float | None, float | None], None]
"""Called with a few words, and how much of what total is done."""


class ScoredRow(Protocol):
    """A prepared row: `loss_mask` is 1 on the tokens of answers."""

    @property
    def row_sha256(self) -> str: ...
    @property
    def input_ids(self) -> list[int]: ...
    @property
    def loss_mask(self) -> list[int]: ...


@dataclass(frozen=True)
class Served:
    """Token-weighted mean loss in nats over `tokens` tokens."""

    nats: float
    tokens: int


async def score_rows(
    client: EngineClient, model: str, rows: Sequence[ScoredRow], progress: Progress | None = None
) -> Logprobs:
    """Score `rows` with `model`, many at a time; the result is in the rows' order."""
    limit = asyncio.Semaphore(CONCURRENCY)
    done = 0

    async def score(row: ScoredRow) -> list[float]:
        nonlocal done
        # The first token has nothing before it, hence no log-probability.
        positions = [position for position, counts in enumerate(row.loss_mask) if counts and position]
        async with limit:
            logprobs = await client.prompt_logprobs(model, list(row.input_ids), positions)
        done += 1
        if progress:
            progress(f"scoring {model}", done, len(rows))
        return logprobs

    return list(await asyncio.gather(*(score(row) for row in rows)))


def mean_loss(scored: Logprobs) -> Served:
    values = [value for row in scored for value in row]
    return Served(-sum(values) / len(values) if values else 0.0, len(values))


def mean_distance(one: Logprobs, other: Logprobs) -> float:
    """The mean absolute difference of two scorings of the same tokens, in nats."""
    pairs = [pair for left, right in zip(one, other, strict=True) for pair in zip(left, right, strict=True)]
    return sum(abs(left - right) for left, right in pairs) / len(pairs) if pairs else 0.0


async def wait_idle(client: EngineClient, limit_s: float = 60.0) -> None:
    """Raises EngineError when the engine still has requests after `limit_s` seconds: proofs starve traffic."""
    deadline = time.monotonic() + limit_s
    while not await client.is_idle():
        if time.monotonic() > deadline:
            running, waiting = await client.load()
            raise EngineError(
                f"the engine at {client.url} still has {running} running and {waiting} waiting requests "
                f"after {limit_s:.0f} s; versions are proven on an idle engine only",
                "Try again when it is idle, or prove the version on another engine.",
            )
        await asyncio.sleep(0.5)
