"""How well a served model does: its loss on validation rows, and its greedy answers to their prompts."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from data.config import DataConfig
from data.prepare import prepare
from data.rows import ScoredRow, validation_sample
from serving.client import EngineClient
from serving.measure import CONCURRENCY, mean_loss, score_rows
from turnout.references import Base


@dataclass(frozen=True)
class Quality:
    """`nats` is the mean loss a token over `tokens` answer tokens; `answers` are texts, in the prompts' order."""

    nats: float
    tokens: int
    answers: tuple[str, ...]


def validation_rows(data: DataConfig, base: Base, count: int) -> list[ScoredRow]:
    """At most `count` validation rows of `data`, in the tokens of `base`; the same ones every time.

    Raises:
        DataError: the source cannot be used.
    """
    with TemporaryDirectory() as folder:
        return validation_sample(prepare(data, base, Path(folder) / "rows"), count)


def measure_quality(
    url: str, model: str, rows: Sequence[ScoredRow], answer_tokens: int, progress: Callable[[str], None]
) -> Quality:
    """Score `rows` with `model` on the engine at `url`, and have it answer their prompts in at most `answer_tokens`.

    Raises:
        EngineError: the engine does not answer.
    """
    return asyncio.run(_measure(url, model, rows, answer_tokens, progress))


async def _measure(
    url: str, model: str, rows: Sequence[ScoredRow], answer_tokens: int, progress: Callable[[str], None]
) -> Quality:
    limit = asyncio.Semaphore(CONCURRENCY)

    def told(what: str, done: float | None, total: float | None) -> None:
        progress(f"{what}, row {done:.0f} of {total:.0f}" if done and total else what)

    async with EngineClient(url) as client:

        async def answer(row: ScoredRow) -> str:
            async with limit:
                return (await client.complete(model, row.prompt_ids, max_tokens=answer_tokens)).text

        loss = mean_loss(await score_rows(client, model, rows, told))
        progress(f"answering as {model}")
        answers = tuple(await asyncio.gather(*map(answer, rows)))
    return Quality(loss.nats, loss.tokens, answers)


def equal_percent(answers: Sequence[str], reference: Sequence[str]) -> float:
    """Of 100 prompts, how many were answered with the very same text."""
    pairs = list(zip(answers, reference, strict=True))
    return 100 * sum(one == other for one, other in pairs) / len(pairs) if pairs else 0.0
