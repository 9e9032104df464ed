"""The quick probe of every later load: prompt ids and a few greedy tokens against those that the proof kept."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from serving.client import Continuation, EngineClient, Message
from turnout.errors import ProofFailed

QUICK_TOKENS = 8
QUICK_PROBES = 2
QUICK_TOLERANCE_NATS = 0.1
"""On the mean over the tokens. On the same build, batches of other sizes move single log-probabilities by up to 0.2
nats where the engine computes in bf16, the mean by up to 0.03; the base without the adapter moves it by whole nats."""


@dataclass(frozen=True)
class QuickRecord:
    """What the quick probe repeats: a conversation, the ids it became, greedy tokens and their log-probabilities."""

    messages: list[Message]
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]


async def quick_probe(client: EngineClient, name: str, kept: Sequence[QuickRecord]) -> None:
    """Check in a second or two that what is served as `name` still answers as when `kept` was recorded.

    Raises:
        ProofFailed: other prompt ids, or greedy log-probabilities off by more than QUICK_TOLERANCE_NATS on the mean.
    """
    answers = await asyncio.gather(*(client.continue_chat(name, before.messages, QUICK_TOKENS) for before in kept))
    moved: list[float] = []
    for before, answer in zip(kept, answers, strict=True):
        if before.prompt_ids != answer.prompt_ids:
            raise failure(name, "template", f"a kept prompt of {len(before.prompt_ids)} ids now has other ids")
        moved += shifts(before, answer)
    mean = sum(moved) / len(moved) if moved else 0.0
    if mean > QUICK_TOLERANCE_NATS:
        figures = f"its greedy tokens' log-probabilities moved by {mean:.3f} nats each, limit {QUICK_TOLERANCE_NATS}"
        raise failure(name, "quick probe", figures)


async def record(client: EngineClient, name: str, messages: list[Message]) -> QuickRecord:
    """What the quick probe will repeat."""
    answer = await client.continue_chat(name, messages, QUICK_TOKENS)
    return QuickRecord(messages, answer.prompt_ids, answer.token_ids, answer.logprobs)


def shifts(before: QuickRecord, answer: Continuation) -> list[float]:
    """How far each kept token's log-probability moved, in nats, up to and with the first position where they part.

    Two tokens that are all but equally likely may change places; one that is out of the top five has moved without
    measure.
    """
    moved = []
    for position, (token, kept) in enumerate(zip(before.token_ids, before.logprobs, strict=True)):
        top = answer.top[position] if position < len(answer.top) else {}
        moved.append(abs(top.get(token, float("-inf")) - kept))
        if not top or answer.token_ids[position] != token:
            break
    return moved


def failure(name: str, rule: str, figures: str) -> ProofFailed:
    """The refusal of a proof: the rule that did not hold, and its figures."""
    return ProofFailed(
        f"{name} fails the proof by its {rule}: {figures}",
        "It gets no traffic. Compare the served base, the chat template and the adapter with those of the training.",
    )
