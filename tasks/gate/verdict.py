"""Weighs a candidate by every rule of the gate."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from registry.manifest import GateRule as Rule
from tasks.config import GateConfig
from tasks.gate.answers import format_rule, stop_rate_rule
from tasks.gate.engine import contract_rule, proof_rule
from tasks.gate.grading import judge_rule
from tasks.gate.losses import loss_rules
from tasks.gate.metrics import metric_rules
from turnout.references import Dataset, Scores

if TYPE_CHECKING:
    from tasks.deploying import Served


@dataclass(frozen=True)
class Verdict:
    passed: bool
    rules: tuple[Rule, ...]

    @property
    def reason(self) -> str:
        """The failed rules in words; empty when all passed."""
        return "; ".join(rule.text for rule in self.rules if not rule.passed)


def judge(
    config: GateConfig,
    scores: Scores,
    served: "Served",
    dataset: Dataset,
    *,
    rolled_back: bool,
    champion_base: str | None = None,
) -> Verdict:
    """Weigh a candidate's losses, its proof and its answers on the engine, its labels, and its past.

    `champion_base` is the base of the present champion, if it is another version; where it was not scored beside
    the candidate, their bases differ. The judge, which may cost money, is asked last, and only about a version that
    all else lets pass.

    Raises:
        ScoringFailed: the file with each row's loss is gone.
        JudgeFailed: the judge does not answer, or not with grades.
    """
    rules = [
        *loss_rules(config, scores, champion_base),
        proof_rule(served),
        contract_rule(dataset, served.base.eos_ids),
        *_answer_rules(config, served),
    ]
    if rolled_back:
        text = "this version was rolled back; only a person may promote it again, with `turnout promote`"
        rules.append(Rule("not_rolled_back", False, None, None, text))
    if config.judge and all(rule.passed for rule in rules):
        rules.append(judge_rule(config.judge, served.answers))
    return Verdict(all(rule.passed for rule in rules), tuple(rules))


def _answer_rules(config: GateConfig, served: "Served") -> list[Rule]:
    """None about a version that failed its proof: it was asked nothing."""
    if served.problem:
        return []
    rules = (
        [] if config.stop_rate is None else [stop_rate_rule(config.stop_rate, served.stop_rate, len(served.answers))]
    )
    if config.format:
        rules.append(format_rule(config.format, served.answers))
    if config.metrics:
        rules += metric_rules(config.metrics, served.answers)
    return rules
