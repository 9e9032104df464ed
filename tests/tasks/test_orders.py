# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""What somebody is asked to approve is fixed when they are asked; the registry is real."""

import pytest
from mlflow import MlflowClient

from registry.releases import append
from registry.versions import set_candidate
from serving.canary import CanarySchedule
from serving.releasing import Switch
from tasks import announcing
from tasks.orders import Order, question, settle
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME, register_one
from turnout.errors import BadInput, NotFound
from turnout.paths import Home


@pytest.fixture
def released(client: MlflowClient, home: Home) -> MlflowClient:
    """v1, then v2 were champions; v3 is the candidate."""
    for weights in (b"one", b"two", b"three"):
        register_one(client, home, weights=weights)
    append(client, NAME, kind="promote", champion=1, parent=0)
    append(client, NAME, kind="promote", champion=2, parent=1)
    set_candidate(client, NAME, 3)
    return client


def test_a_promotion_is_of_the_candidate_over_the_champion(released: MlflowClient) -> None:
    settled = settle(Order("promote", NAME))
    assert (settled.version, settled.expect) == (3, 2)
    assert settle(settled) == settled
    assert question(settled) == f"Promote **v3** of **{NAME}**, now served by v2."


def test_without_a_candidate_there_is_nothing_to_promote(released: MlflowClient) -> None:
    released.delete_registered_model_alias(NAME, "candidate")
    with pytest.raises(NotFound, match="no candidate"):
        settle(Order("promote", NAME))
    assert settle(Order("promote", NAME, version=1)).version == 1


def test_a_rollback_is_to_the_champion_before(released: MlflowClient) -> None:
    settled = settle(Order("rollback", NAME, reason="slow"))
    assert (settled.version, settled.expect, settled.ends) == (1, 2, None)
    assert question(settled) == f"Roll **{NAME}**, now served by v2 back to **v1**.\n\nReason: slow"


def test_a_rollback_beside_a_canary_ends_that(released: MlflowClient) -> None:
    append(released, NAME, kind="canary", champion=2, weights={3: 5}, parent=2)
    settled = settle(Order("rollback", NAME))
    assert (settled.version, settled.expect, settled.ends) == (None, 2, 3)
    assert settle(settled) == settled
    assert settle(Order("rollback", NAME, version=1)).ends is None
    append(released, NAME, kind="abort", champion=2, parent=3)
    assert settle(settled) != settled


def test_an_emergency_asks_no_registry(home: Home) -> None:
    order = Order("rollback", NAME, emergency=True)
    home.mlflow_database.write_text("no database")
    assert settle(order) == order
    assert "without the registry" in question(order)


def test_canaries_and_shadows_are_described(released: MlflowClient) -> None:
    canary = settle(Order("promote", NAME, canary=CanarySchedule(steps=(10, 100))))
    assert "**v3** 10, 100 % of the requests" in question(canary)
    assert canary.percent == 10
    assert "copies of 2.5 %" in question(settle(Order("promote", NAME, shadow=2.5)))


def test_an_order_cannot_be_a_canary_and_a_shadow() -> None:
    with pytest.raises(BadInput, match="exclude each other"):
        Order("promote", NAME, canary=CanarySchedule(), shadow=5)


@pytest.mark.parametrize(
    ("switch", "percent", "words"),
    [
        (Switch("bot", 1, 2, True, 0.09, 4), None, "bot: v1 → v2 in 0.09 s (event 4)"),
        (Switch("bot", None, 1, True, 0.09, 1), None, "bot: no version → v1 in 0.09 s (event 1)"),
        (Switch("bot", 2, 2, False, 0.0, 4), None, "bot: v2 is in place already (event 4)"),
        (
            Switch("bot", 1, 2, True, 0.09, 4, kind="canary"),
            5,
            "bot: 5 % of the requests to v2 as a canary beside v1 in 0.09 s (event 4)",
        ),
        (
            Switch("bot", 1, 2, True, 0.09, 4, kind="shadow"),
            5,
            "bot: copies of 5 % of the requests to v2 as the shadow of v1 in 0.09 s (event 4)",
        ),
        (
            Switch("bot", 2, 1, True, 0.09, 4, kind="abort"),
            None,
            "bot: v2 gets no more requests beside v1 in 0.09 s (event 4)",
        ),
        (
            Switch("bot", 1, 2, True, 0.09, 4, loaded_now=True),
            None,
            "bot: v1 → v2 in 0.09 s (event 4), loaded and probed first",
        ),
    ],
)
def test_outcomes_are_told_in_a_line(switch: Switch, percent: float | None, words: str) -> None:
    assert announcing.sentence(announcing.outcome(switch, percent)) == words


def test_what_did_not_switch_is_named() -> None:
    result = announcing.outcome(Switch("bot", 1, 2, True, 0.5, 4, pending=("gateway-b",), warnings=("stale",)))
    assert {"name", "from", "to", "seconds", "pending"} <= result.keys()
    first, second = announcing.notes(result)
    assert first.startswith("gateway-b has not switched yet")
    assert second == "stale"
    assert "- approved by Ada\n- gateway-b" in announcing.page(result, "Ada")
