"""Promote and rollback as Prefect tasks: thin wrappers of the functions that the command line calls too."""

from typing import Any

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from serving import releasing
from serving.releasing import Switch
from tasks import announcing
from tasks.orders import Order
from turnout.paths import home


@task(name="promote", cache_policy=NO_CACHE, persist_result=False)
def promote(order: Order) -> Switch:
    """Switch traffic to the order's version: at once, as a canary, or copies of it as a shadow."""
    return releasing.promote(
        home(),
        order.name,
        order.version,
        expect=order.expect,
        canary=order.percent if order.canary else None,
        schedule=order.canary,
        shadow=order.shadow,
        reason=order.reason,
        actor=order.actor,
        on_step=get_run_logger().info,
    )


@task(name="rollback", cache_policy=NO_CACHE, persist_result=False)
def roll_back(order: Order) -> Switch:
    """Switch traffic back."""
    return releasing.rollback(
        home(),
        order.name,
        to=order.version,
        expect=order.expect,
        reason=order.reason,
        emergency=order.emergency,
        actor=order.actor,
        on_step=get_run_logger().info,
    )


def publish(order: Order, switch: Switch) -> dict[str, Any]:
    """The outcome, also as an artifact. The traffic is where it is, so an artifact that fails is a warning in it."""
    result = announcing.outcome(switch, order.percent)
    try:
        create_markdown_artifact(
            announcing.page(result, order.actor or ""),
            key=f"{order.name}-release",
            description=announcing.sentence(result),
        )
    except Exception as error:  # what comes depends on the HTTP library of the server that is gone
        result["warnings"].append(f"the outcome is not in Prefect: {type(error).__name__} {error}")
    return result
