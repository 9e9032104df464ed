"""The release manager's flows: promote and rollback, with a form in Prefect's page, and with a person's approval."""

from typing import Any

from prefect import flow

from serving.canary import CanarySchedule
from tasks import switches
from tasks.approval import A_DAY_S, approved
from tasks.orders import Order


@flow(name="promote")
def promote(
    name: str,
    version: int | None = None,
    canary: CanarySchedule | None = None,
    shadow: float | None = None,
    expect: int | None = None,
    reason: str = "",
    approval: bool = False,
    approval_timeout_s: int = A_DAY_S,
) -> dict[str, Any]:
    """Switch a name's traffic to a version.

    Args:
        name: the adapter's name.
        version: the version's number; the candidate if left out.
        canary: give the version a share of the requests first, and more of them step by step; it is aborted when it
            does worse than the champion. Left out, it gets all of them at once.
        shadow: send the version copies of this percent of the requests and discard its answers; not with a canary.
        expect: do it only if this version is the champion now.
        reason: why, for the release log.
        approval: wait for a person, who resumes this run in Prefect's page with a form.
        approval_timeout_s: the seconds after which a missing approval counts as a no.
    """
    order = Order("promote", name, version=version, canary=canary, shadow=shadow, expect=expect, reason=reason)
    if approval:
        order = approved(order, approval_timeout_s)
    return switches.publish(order, switches.promote(order))


@flow(name="rollback")
def rollback(
    name: str,
    to: int | None = None,
    expect: int | None = None,
    reason: str = "",
    emergency: bool = False,
    approval: bool = False,
    approval_timeout_s: int = A_DAY_S,
) -> dict[str, Any]:
    """Switch a name's traffic back, and mark the version that it leaves as rolled back.

    Args:
        name: the adapter's name.
        to: the number of the version to go back to; the champion before if left out.
        expect: do it only if this version is the champion now.
        reason: why, for the release log.
        emergency: do it while MLflow is out of reach; the release log gets it when MLflow is back.
        approval: wait for a person, who resumes this run in Prefect's page with a form.
        approval_timeout_s: the seconds after which a missing approval counts as a no.
    """
    order = Order("rollback", name, version=to, expect=expect, reason=reason, emergency=emergency)
    if approval:
        order = approved(order, approval_timeout_s)
    return switches.publish(order, switches.roll_back(order))
