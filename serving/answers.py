"""Has a proven version answer validation prompts on its engine, and keeps the answers, so that none is asked twice."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from serving.client import EngineClient
from serving.measure import CONCURRENCY, Progress
from turnout.digests import json_sha256
from turnout.files import read_state, write_json
from turnout.references import Answer, to_json


@dataclass(frozen=True)
class Question:
    """A validation prompt in words and in token ids, the answer that its row has, and how long an answer may be."""

    row_sha256: str
    prompt: str
    expected: str
    prompt_ids: tuple[int, ...]
    max_tokens: int


@dataclass(frozen=True)
class _Kept:
    questions_sha256: str
    answers: tuple[Answer, ...]


async def answer_all(
    client: EngineClient,
    model: str,
    questions: Sequence[Question],
    context: int,
    file: Path,
    progress: Progress | None = None,
) -> tuple[Answer, ...]:
    """Greedy answers of `model` to `questions`, in their order: those in `file`, else new ones, which go there.

    Args:
        context: so many tokens a prompt and its answer may have together; a prompt that leaves no room is left out.

    Raises:
        EngineError: the engine does not answer.
    """
    asked = [each for each in questions if len(each.prompt_ids) < context]
    digest = json_sha256([context, [asdict(each) for each in asked]])
    kept = read_state(file, _Kept)
    if kept and kept.questions_sha256 == digest:
        return kept.answers
    limit, done = asyncio.Semaphore(CONCURRENCY), 0

    async def answer(question: Question) -> Answer:
        nonlocal done
        async with limit:
            room = context - len(question.prompt_ids)
            told = await client.complete(model, question.prompt_ids, max_tokens=min(question.max_tokens, room))
        done += 1
        if progress:
            progress(f"answering as {model}", done, len(asked))
        return Answer(
            question.row_sha256, question.prompt, question.expected, told.text, told.finish_reason, told.tokens
        )

    answers = tuple(await asyncio.gather(*map(answer, asked)))
    if answers:
        write_json(file, to_json(_Kept(digest, answers)))
    return answers
