"""The gate: what a candidate must show before it gets traffic."""

from dataclasses import dataclass

from tasks.config import GateConfig
from turnout.references import Scores


@dataclass(frozen=True)
class Rule:
    """One rule's outcome. `figure` and `limit` are in nats a token; None where the rule has no figure."""

    name: str
    passed: bool
    figure: float | None
    limit: float | None
    text: str


@dataclass(frozen=True)
class Verdict:
    passed: bool
    rules: tuple[Rule, ...]

    @property
    def reason(self) -> str:
        """The failed rules in words; empty when all passed."""
        return "; ".join(rule.text for rule in self.rules if not rule.passed)


def judge(
    config: GateConfig, scores: Scores, *, proof: Rule, rolled_back: bool, champion_base: str | None = None
) -> Verdict:
    """Weigh a candidate's losses, its proof on the engine and its past.

    `champion_base` is the base of the present champion, if it is another version; where it was not scored beside
    the candidate, their bases differ.
    """
    rules = [_better_than_base(config, scores), _not_worse_than_champion(config, scores, champion_base), proof]
    if rolled_back:
        text = "this version was rolled back; only a person may promote it again, with `turnout promote`"
        rules.append(Rule("not_rolled_back", False, None, None, text))
    return Verdict(all(rule.passed for rule in rules), tuple(rules))


def _better_than_base(config: GateConfig, scores: Scores) -> Rule:
    gain, least = round(scores.base.nats - scores.candidate.nats, 6), config.better_than_base_by
    text = f"eval loss {scores.candidate.nats:.4f} against the base's {scores.base.nats:.4f}"
    if least:
        text += f", at least {least:.4f} lower wanted"
    return Rule("better_than_base", gain > least, gain, least, text)


def _not_worse_than_champion(config: GateConfig, scores: Scores, champion_base: str | None) -> Rule:
    limit = config.worse_than_champion_by
    if scores.champion is None and champion_base is not None:
        text = f"the champion's base is {champion_base}: losses of two bases cannot be compared"
        return Rule("not_worse_than_champion", config.new_base, None, limit, f"{text} (gate.new_base allows it)")
    if scores.champion is None:
        return Rule("not_worse_than_champion", True, None, limit, "there is no other champion")
    loss = round(scores.candidate.nats - scores.champion.nats, 6)
    text = f"eval loss {scores.candidate.nats:.4f} against the champion's {scores.champion.nats:.4f}"
    return Rule("not_worse_than_champion", loss <= limit, loss, limit, f"{text}, at most {limit:.4f} higher")
