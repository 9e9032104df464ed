"""The gate's judge: a model behind an OpenAI-compatible endpoint that grades the engine's answers."""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.manifest import GateRule as Rule
from tasks import progress
from tasks.answers_config import JudgeConfig
from tasks.gate.answers import unanswered
from turnout.digests import json_sha256
from turnout.errors import BadInput, JudgeFailed
from turnout.files import read_state, write_json
from turnout.paths import home
from turnout.references import Answer

if TYPE_CHECKING:
    from openai import OpenAI

TRIES = 3
"""The SDK's own, for connections that fail and servers that are busy."""
_PLACES = re.compile(r"\{(prompt|expected|answer)\}")
_THOUGHTS = re.compile(r"<think>.*?</think>", re.DOTALL)
_GRADE = re.compile(r"(?<![\w.-])(\d+(?:\.\d+)?)(?:\s*(?:/|out of)\s*10\b)?(?![\w.]*\d)")


def judge_rule(config: JudgeConfig, answers: Sequence[Answer]) -> Rule:
    """Whether the judge's mean grade is high enough. A grade is kept, so that running again asks for the rest only.

    Raises:
        BadInput: the environment variable with the key is not set.
        JudgeFailed: the judge does not answer, or not with a grade.
    """
    if not answers:
        return unanswered("judge", config.least)
    import openai

    client = openai.OpenAI(
        base_url=config.url, api_key=judge_key(config), timeout=config.timeout_s, max_retries=TRIES - 1
    )
    folder = home().stages / "grades"
    grades: list[float] = []
    with client, ThreadPoolExecutor(config.concurrency) as pool:
        for grade in pool.map(lambda answer: _grade(client, config, answer, folder), answers):
            grades.append(grade)
            progress.update("the judge grades answers", len(grades), len(answers))
    mean = sum(grades) / len(grades)
    text = f"{config.model} grades {len(grades)} answers {mean:.2f} of 10 on the mean, at least {config.least} wanted"
    return Rule("judge", mean >= config.least, mean, config.least, text)


def judge_key(config: JudgeConfig) -> str:
    """The judge's API key; a placeholder where it needs none.

    Raises:
        BadInput: the environment variable with the key is not set.
    """
    if config.api_key_env is None:
        return "none"  # the SDK would take the user's OpenAI key, and send it to whatever the URL names
    key = os.environ.get(config.api_key_env, "")
    if not key:
        raise BadInput(
            f"gate.judge.api_key_env names {config.api_key_env}, which is not set",
            "Set it in the environment of the process that runs the pipeline.",
        )
    return key


def _grade(client: "OpenAI", config: JudgeConfig, answer: Answer, folder: Path) -> float:
    said = {"prompt": answer.prompt, "expected": answer.expected, "answer": answer.text}
    question = _PLACES.sub(lambda place: said[place[1]], config.prompt)
    asked = config.model_dump(mode="json", include={"url", "model", "temperature", "max_tokens"})
    record = folder / f"{json_sha256({**asked, 'question': question})[:32]}.json"
    kept = read_state(record, float)
    if kept is None:
        kept = read_grade(_ask(client, config, question), config)
        write_json(record, kept)
    return kept


def _ask(client: "OpenAI", config: JudgeConfig, question: str) -> str:
    import openai

    try:
        reply = client.chat.completions.create(
            model=config.model,
            messages=[{"role": "user", "content": question}],
            temperature=openai.omit if config.temperature is None else config.temperature,
            max_tokens=openai.omit if config.max_tokens is None else config.max_tokens,
        )
        content: Any = reply.choices[0].message.content or ""
        if not isinstance(content, str):
            raise TypeError(f"a reply that is no text but {content!r:.100}")
        return content
    # What is not the API's JSON ends in an AttributeError, TypeError or IndexError here.
    except (openai.OpenAIError, AttributeError, TypeError, IndexError, ValueError) as error:
        raise JudgeFailed(
            f"the judge {config.model} at {config.url} does not answer: {type(error).__name__} {error!s:.300}",
            "What is trained and proven is kept: run the same command again when it does.",
        ) from error


def read_grade(reply: str, config: JudgeConfig) -> float:
    """The last number of the judge's reply, from 1 to 10, its thoughts left out.

    Raises:
        JudgeFailed: there is none.
    """
    numbers = _GRADE.findall(_THOUGHTS.sub("", reply))
    if not numbers or not 1 <= float(numbers[-1]) <= 10:
        raise JudgeFailed(
            f"the judge {config.model} gives no grade from 1 to 10: {reply[-100:]!r}",
            "Run the same command again, or say in gate.judge.prompt what it shall reply.",
        )
    return float(numbers[-1])
