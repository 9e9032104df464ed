"""Waits, in Prefect's page, for a person who lets a switch of traffic happen or not."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput
from prefect.settings import get_current_settings
from pydantic import Field

from registry.names import called
from registry.releases import fold, read_log
from registry.store import connect
from registry.versions import Version
from tasks import progress
from tasks.config import GateConfig
from tasks.gate import Rule, Verdict
from tasks.orders import ONLY_FOR_THIS_COMMAND, Order, question, settle
from turnout.errors import Refused, RegistryConflict
from turnout.paths import home

A_DAY_S = 86_400
SECONDS_BETWEEN_LOOKS = 2
"""Prefect polls its server for the answer; its own 10 s would keep an approved release waiting."""


class Approval(RunInput):
    """The form that a person fills in to go on."""

    approve: bool = Field(title="Let it happen")
    who: str = Field(title="Who decides", description="For the release log.", pattern=r"\S", max_length=200)
    comment: str = Field("", title="Comment", description="For the release log.", max_length=2000)


@dataclass(frozen=True)
class Decision:
    """The gate's verdict with the person's, and whether the version may have traffic; `waits` says what is missing."""

    verdict: Verdict
    promote: bool
    waits: str = ""

    def noted(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """A run's outcome, with what it waits for among its warnings."""
        return {**result, "warnings": [*result["warnings"], *filter(None, [self.waits])]}


def approved(order: Order, timeout_s: int) -> Order:
    """The order with its version and champion fixed, and the approver as its actor.

    Pauses the flow run that this is called in until somebody resumes it with the form filled in. The process goes on
    living meanwhile: a worker that is stopped takes the run with it, and nothing has happened.

    Raises:
        Refused: the answer was no, or there was none within `timeout_s` seconds.
        NotFound: there is nothing to promote.
        RegistryConflict: what was approved is no longer what would happen.
    """
    settled = settle(order)
    answer = _ask(settled, timeout_s)
    if answer is None:
        raise Refused(
            f"nobody approved the {order.kind} of {order.name} within {timeout_s} s, so nothing was switched",
            "Run it again when somebody can.",
        )
    if not answer.approve:
        raise Refused(
            f"{answer.who} refused the {order.kind} of {order.name}, so nothing was switched",
            f"The comment: {answer.comment or 'none'}",
        )
    if settle(settled) != settled:
        raise RegistryConflict(
            f"{order.name} was released while the {order.kind} waited for its approval, so nothing was switched",
            f"look at `turnout history {order.name}`, then decide again",
        )
    return replace(settled, actor=answer.who, reason="; ".join(filter(None, (order.reason, answer.comment))))


def decide(config: GateConfig, version: Version, verdict: Verdict, promote: bool, timeout_s: int) -> Decision:
    """What becomes of a version that the gate judged, with `gate.approval: required` after a person was asked.

    The person's answer is one rule more: a no refuses the version for good. Where nobody answers within `timeout_s`
    seconds, or nobody can be asked, it stays the candidate.
    """
    champion = fold(read_log(connect(home()), version.name)).champion
    if config.approval == "none" or not (verdict.passed and promote) or champion == version.number:
        return Decision(verdict, promote)
    passed = "; ".join(rule.text for rule in verdict.rules)
    order = Order("promote", version.name, version.number, champion, reason=f"the gate passed it: {passed}")
    releases = f"`turnout promote {version.name} {called(version.number)}` releases it"
    if not _can_be_asked():
        why = "this run's Prefect server ends with it, so nobody could be asked"
        return Decision(verdict, False, f"gate.approval is required and {why}; {releases}")
    with progress.timed("approval"):
        progress.update("waiting for a person in Prefect's page")
        answer = _ask(order, timeout_s)
    if answer is None:
        return Decision(verdict, False, f"nobody approved {version.served_name} within {timeout_s} s; {releases}")
    text = " ".join(filter(None, (f"{answer.who} {'approved' if answer.approve else 'refused'} it.", answer.comment)))
    rules = (*verdict.rules, Rule("approval", answer.approve, None, None, text))
    return Decision(Verdict(answer.approve, rules), promote)


def _ask(order: Order, timeout_s: int) -> Approval | None:
    """The filled in form; None where nobody did within `timeout_s` seconds."""
    form = Approval.with_initial_data(description=question(order))
    try:
        answer = pause_flow_run(wait_for_input=form, timeout=timeout_s, poll_interval=SECONDS_BETWEEN_LOOKS)
    except FlowPauseTimeout:
        return None
    return answer.model_copy(update={"who": answer.who.strip(), "comment": answer.comment.strip()})


def _can_be_asked() -> bool:
    """Whether the run shows in the page of a server that outlives it."""
    return bool(get_current_settings().api.url) and ONLY_FOR_THIS_COMMAND not in os.environ
