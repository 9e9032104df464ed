"""The gate's rules on the form of the engine's answers: that they stop, and a format."""

import json
import re
from collections.abc import Callable, Sequence

from registry.manifest import GateRule as Rule
from tasks.answers_config import FormatConfig
from turnout.errors import PresetError
from turnout.references import Answer

SHOWN = 80
"""Characters of an answer that a rule shows."""


def stop_rate_rule(least: float, rate: float | None, answers: int) -> Rule:
    """Whether enough of the engine's answers ended by themselves."""
    if rate is None:
        return unanswered("stop_rate", least)
    text = f"{rate:.0%} of {answers} answers on the engine ended by themselves, at least {least:.0%} wanted"
    return Rule("stop_rate", rate >= least, rate, least, text)


def format_rule(config: FormatConfig, answers: Sequence[Answer]) -> Rule:
    """Whether enough of the engine's answers have the wanted form.

    Raises:
        PresetError: the JSON schema names another document.
    """
    if not answers:
        return unanswered("format", config.share)
    fits = _json_check(config.json_schema) if config.json_schema is not None else _regex_check(config.regex or "")
    wrong = [answer for answer in answers if not fits(answer.text)]
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


def _regex_check(regex: str) -> Callable[[str], bool]:
    pattern = re.compile(regex)
    return lambda text: pattern.search(text) is not None


def _json_check(schema: dict[str, object]) -> Callable[[str], bool]:
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    # An empty registry: the default one would fetch what `$ref` names from the network.
    validator = validator_for(schema)(schema, registry=Registry())

    def fits(text: str) -> bool:
        try:
            return bool(validator.is_valid(json.loads(text)))
        except (ValueError, RecursionError):
            return False
        except Unresolvable as error:
            raise PresetError(
                f"gate.format.json_schema names {error.ref!r:.100}, which is not in it", "Write it under $defs."
            ) from error

    return fits
