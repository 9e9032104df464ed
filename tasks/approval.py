"""Waits, in Prefect's page, for a person who lets a switch of traffic happen or not."""

from dataclasses import replace

from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput
from pydantic import Field

from tasks.orders import Order, question, settle
from turnout.errors import Refused, RegistryConflict

SECONDS_BETWEEN_LOOKS = 2
"""Prefect polls its server for the answer; its own 10 s would keep an approved release waiting."""


class Approval(RunInput):
    """The form that a person fills in to go on."""

    approve: bool = Field(title="Let it happen")
    who: str = Field(title="Who decides", description="For the release log.", pattern=r"\S", max_length=200)
    comment: str = Field("", title="Comment", description="For the release log.", max_length=2000)


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
    form = Approval.with_initial_data(description=question(settled))
    try:
        answer = pause_flow_run(wait_for_input=form, timeout=timeout_s, poll_interval=SECONDS_BETWEEN_LOOKS)
    except FlowPauseTimeout as error:
        raise Refused(
            f"nobody approved the {order.kind} of {order.name} within {timeout_s} s, so nothing was switched",
            "Run it again when somebody can.",
        ) from error
    who = answer.who.strip()
    if not answer.approve:
        raise Refused(
            f"{who} refused the {order.kind} of {order.name}, so nothing was switched",
            f"The comment: {answer.comment or 'none'}",
        )
    if settle(settled) != settled:
        raise RegistryConflict(
            f"{order.name} was released while the {order.kind} waited for its approval, so nothing was switched",
            f"look at `turnout history {order.name}`, then decide again",
        )
    return replace(settled, actor=who, reason="; ".join(filter(None, (order.reason, answer.comment))))
