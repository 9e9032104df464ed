"""What somebody wants done to a name's traffic, before it is done."""

from dataclasses import dataclass, replace
from typing import Literal

from registry.aliases import read_aliases
from registry.names import called
from registry.releases import fold, read_log
from registry.store import connect
from serving.canary import CanarySchedule, check_shares
from turnout.errors import NotFound
from turnout.paths import home

ONLY_FOR_THIS_COMMAND = "TURNOUT_TEMPORARY_PREFECT"
"""The environment variable that is set where Prefect's server ends with the command: nobody can approve anything."""


@dataclass(frozen=True)
class Order:
    """A switch of `name` to `version`, only while `expect` is the champion where that is given.

    A promotion without a version means the candidate; a rollback without one ends a running canary or shadow, `ends`,
    else it goes to the champion before. `shadow` is percent of the requests. `actor` and `reason` are for the
    release log; without an actor it is whoever runs the code.
    """

    kind: Literal["promote", "rollback"]
    name: str
    version: int | None = None
    expect: int | None = None
    canary: CanarySchedule | None = None
    shadow: float | None = None
    emergency: bool = False
    ends: int | None = None
    reason: str = ""
    actor: str | None = None

    def __post_init__(self) -> None:
        """Raises BadInput for shares that cannot be, before anybody is asked to approve them."""
        check_shares(self.canary.steps[0] if self.canary else None, self.shadow)

    @property
    def percent(self) -> float | None:
        """The share that a canary begins with, or the shadow's."""
        return self.canary.steps[0] if self.canary else self.shadow


def settle(order: Order) -> Order:
    """Fix which version is meant and what it replaces, so that what is approved is what happens later, or nothing.

    An emergency's order stays as it is: the registry that would know is out of reach.

    Raises:
        NotFound: a promotion names no version and there is no candidate.
    """
    if order.emergency:
        return order
    client = connect(home())
    release = fold(read_log(client, order.name))
    expect = order.expect if order.expect is not None else release.champion
    if order.version is not None:
        return replace(order, expect=expect)
    if order.kind == "rollback":
        arm = max({**release.weights, **release.shadow}, default=None)
        return replace(order, expect=expect, ends=arm, version=release.previous if arm is None else None)
    candidate = read_aliases(client, order.name).get("candidate")
    if candidate is None:
        raise NotFound(
            f"{order.name} has no candidate to promote", f"name a version; `turnout versions {order.name}` lists them"
        )
    return replace(order, expect=expect, version=candidate)


def question(order: Order) -> str:
    """The order in Markdown, for the person who is to approve it."""
    to = f"**{called(order.version)}**" if order.version is not None else "the champion before"
    now = f", now served by {called(order.expect)}" if order.expect is not None else ""
    if order.ends is not None:
        what = f"End the canary or shadow **{called(order.ends)}** of **{order.name}**{now}."
    elif order.kind == "rollback":
        emergency = ", without the registry" if order.emergency else ""
        what = f"Roll **{order.name}**{now} back to {to}{emergency}."
    elif order.canary:
        steps = ", ".join(f"{step:g}" for step in order.canary.steps)
        what = f"Give {to} {steps} % of the requests for **{order.name}**{now}, step by step."
    elif order.shadow is not None:
        what = f"Send {to} copies of {order.shadow:g} % of the requests for **{order.name}**{now}."
    else:
        what = f"Promote {to} of **{order.name}**{now}."
    return f"{what}\n\nReason: {order.reason}" if order.reason else what
