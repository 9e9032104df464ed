"""The gate's rules on the form of the engine's answers: that they stop, and a format."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from registry.manifest import GateRule as Rule
from tasks.answers_config import FormatConfig
from tasks.children import run_module
from turnout.errors import PresetError
from turnout.references import Answer

SHOWN = 80
"""Characters of an answer that a rule shows."""
LIMIT_S = 30
"""Seconds in which a format must be done with all answers; a good one needs one, most of it to start its process."""


def stop_rate_rule(least: float, rate: float | None, answers: int) -> Rule:
    """Whether enough of the engine's answers ended by themselves."""
    if rate is None:
        return unanswered("stop_rate", least)
    text = f"{rate:.0%} of {answers} answers on the engine ended by themselves, at least {least:.0%} wanted"
    return Rule("stop_rate", rate >= least, rate, least, text)


def format_rule(config: FormatConfig, answers: Sequence[Answer]) -> Rule:
    """Whether enough of the engine's answers have the wanted form.

    Raises:
        PresetError: the form's pattern takes too long.
    """
    if not answers:
        return unanswered("format", config.share)
    fits = _which_fit(config, [answer.text for answer in answers])
    wrong = [answer for answer, fitting in zip(answers, fits, strict=True) if not fitting]
    share = (len(answers) - len(wrong)) / len(answers)
    text = f"{share:.0%} of {len(answers)} answers have the format, at least {config.share:.0%} wanted"
    passed = share >= config.share
    if wrong:
        text += f"; one that has not: {wrong[0].text[:SHOWN]!r}"
    return Rule("format", passed, share, config.share, text)


def unanswered(name: str, limit: float) -> Rule:
    """A rule that could not be measured does not pass."""
    text = f"the engine was asked for no answers, so {name} is unknown: raise score.answers, or leave this rule out"
    return Rule(name, False, None, limit, text)


def _which_fit(config: FormatConfig, texts: list[str]) -> list[bool]:
    latest = time.monotonic() + LIMIT_S

    def watch() -> None:
        if time.monotonic() > latest:
            raise PresetError(
                f"gate.format was not done with {len(texts)} answers after {LIMIT_S} s, as a regular expression with "
                "repeats within repeats is",
                "Write it without them. What is trained and proven is kept: run again with the new one.",
            )

    with tempfile.TemporaryDirectory(prefix="turnout-format-") as folder:
        job = {"format": config, "answers": texts}
        return list(run_module("tasks.gate.fitting", job, Path(folder), on_poll=watch))
