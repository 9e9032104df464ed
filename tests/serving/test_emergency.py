# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""Rollbacks while MLflow is down: traffic moves at once, the release log learns of it once, later."""

from pathlib import Path

import pytest
from mlflow import MlflowClient

from registry.releases import Event, append, read_log
from serving.canary import CanarySchedule
from serving.control import GATEWAYS
from serving.journal import read_overrides, settle_overrides, write_override
from serving.reconciler_process import start_reconciler
from serving.reconciling import Reconciler
from serving.records import Engine
from serving.releasing import promote, rollback
from serving.tokens import ADMIN_TOKEN, admin_token
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME
from tests.serving.yard import Yard, unload_all, wait_until, yard
from turnout.errors import BadInput, EngineUnreachable, NotFound, Refused, RegistryConflict, RegistryUnavailable
from turnout.paths import Home

DOWN = "http://127.0.0.1:1"


@pytest.fixture
def engine(yard: Yard) -> Engine:
    """v1 was released and is served, then v2."""
    engine = yard.engine()
    yard.serve(yard.make(b"one"), yard.make(b"two"))
    return engine


def rollbacks(yard: Yard) -> list[Event]:
    return [event for event in read_log(yard.client, NAME) if event.kind == "rollback"]


def journalled(home: Home) -> int:
    return len(list(home.journal.glob("*.json")))


def test_traffic_moves_without_the_registry_and_the_log_follows(
    yard: Yard, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.gateway()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", DOWN)
    with pytest.raises(RegistryUnavailable):
        rollback(yard.home, NAME)
    assert yard.ask().json()["model"] == "incident-bot-v2"
    switch = rollback(yard.home, NAME, emergency=True, reason="it rambles", actor="ada")
    assert (switch.before, switch.to, switch.changed, switch.pending) == (2, 1, True, ())
    assert "the release log gets this event" in switch.warnings[0] and switch.seconds < 2
    assert yard.ask().json()["model"] == "incident-bot-v1" and journalled(yard.home) == 1
    # Passes change nothing, in this process, which read the log before, or another one.
    for reconciler in (yard.reconciler, Reconciler(yard.home)):
        reconciler.run_pass()
        assert yard.ask().json()["model"] == "incident-bot-v1"
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert yard.run().problems == {} and journalled(yard.home) == 0
    (event,) = rollbacks(yard)
    assert (event.champion, event.actor, event.reason) == (1, "ada", "it rambles") and event.figures["emergency"]
    on = yard.routes().names[NAME]
    assert (on.champion, on.override, on.event) == (1, "", event.number) and yard.release().rolled_back == {2}
    yard.run()
    assert len(rollbacks(yard)) == 1


def test_two_homes_write_one_event(yard: Yard, engine: Engine, client: MlflowClient, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    for each in (yard.home, other):
        write_override(each, NAME, 2, 1, actor="ada", reason="")
    assert settle_overrides(client, other, NAME) == settle_overrides(client, yard.home, NAME) == []
    assert len(rollbacks(yard)) == 1 and journalled(yard.home) == journalled(other) == 0


def test_a_rollback_that_the_log_has_overtaken_gives_way(
    yard: Yard, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = yard.make(b"three")
    with monkeypatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", DOWN)
        rollback(yard.home, NAME, emergency=True)
    yard.append(three)
    assert "was overtaken: the log is at v3 by now" in yard.run().problems[NAME][0]
    assert rollbacks(yard) == [] and journalled(yard.home) == 0
    assert yard.run().problems == {} and yard.routes().names[NAME].champion == 3


def test_an_emergency_ends_a_canary_too(yard: Yard, engine: Engine) -> None:
    yard.make(b"three")
    promote(yard.home, NAME, 3, canary=50, schedule=CanarySchedule(steps=(50,)))
    assert yard.routes().names[NAME].weights == {"3": 50.0}
    rollback(yard.home, NAME, emergency=True)
    on = yard.routes().names[NAME]
    assert on.champion == 1 and on.weights == {}
    yard.run()
    assert yard.release().champion == 1 and yard.routes().names[NAME].weights == {}


def test_only_what_is_ready_can_be_gone_back_to(yard: Yard, engine: Engine) -> None:
    with pytest.raises(NotFound, match="nobody is not routed here; routed: incident-bot"):
        rollback(yard.home, "nobody", emergency=True)
    with pytest.raises(NotFound, match="v7 of incident-bot is not loaded on every replica; loaded: v2, v1"):
        rollback(yard.home, NAME, to=7, emergency=True)
    with pytest.raises(RegistryConflict, match="is at v2 here, not at v1"):
        rollback(yard.home, NAME, expect=1, emergency=True)
    unload_all(engine)
    yard.reconciler.run_pass()
    assert rollback(yard.home, NAME, emergency=True).to == 1
    # Whoever else is in panic finds it done.
    with pytest.raises(Refused, match="no earlier champion"):
        rollback(yard.home, NAME, emergency=True)
    assert rollback(yard.home, NAME, to=2, emergency=True).to == 2 and journalled(yard.home) == 2
    # Both stand in the log in their order.
    yard.run()
    assert [event.champion for event in rollbacks(yard)] == [1, 2] and yard.routes().names[NAME].champion == 2


def test_another_machine_overrides_through_the_gateway(
    yard: Yard, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", DOWN)
    monkeypatch.setenv(ADMIN_TOKEN, admin_token(yard.home))
    url = yard.gateway()
    start_reconciler(yard.home, follow_log=True)
    monkeypatch.setenv(GATEWAYS, url)
    elsewhere = Home(tmp_path / "elsewhere")
    with pytest.raises(RegistryConflict, match="is at v2 here, not at v1"):
        rollback(elsewhere, NAME, expect=1, emergency=True)
    monkeypatch.setenv(GATEWAYS, f"{DOWN},{url}")
    switch = rollback(elsewhere, NAME, emergency=True)
    assert (switch.before, switch.to, switch.pending) == (2, 1, (DOWN,)) and DOWN in " ".join(switch.warnings)
    assert yard.ask().json()["model"] == "incident-bot-v1"
    assert journalled(yard.home) == 1 and journalled(elsewhere) == 0
    monkeypatch.setenv(GATEWAYS, DOWN)
    with pytest.raises(EngineUnreachable):
        rollback(elsewhere, NAME, emergency=True)


def test_a_gateway_that_refuses_does_not_keep_the_next_from_switching(
    yard: Yard, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ADMIN_TOKEN, admin_token(yard.home))
    url = yard.gateway()
    start_reconciler(yard.home, follow_log=True)
    wrong = f"{url}/v1"
    monkeypatch.setenv(GATEWAYS, f"{wrong},{url},{engine.url}")
    switch = rollback(Home(tmp_path / "elsewhere"), NAME, emergency=True)
    assert (switch.before, switch.to, switch.pending) == (2, 1, (wrong, engine.url))
    assert "answers HTTP 404: there is no" in switch.warnings[1]
    assert yard.ask().json()["model"] == "incident-bot-v1"


@pytest.mark.parametrize("url", ["gateway", "http://", "file:///etc/passwd", "http://host:99999", "http://host/?a=b"])
def test_what_is_no_gateway_is_named_before_anything_happens(
    yard: Yard, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GATEWAYS, f"{DOWN},{url}")
    with pytest.raises(BadInput, match="TURNOUT_GATEWAYS names"):
        rollback(yard.home, NAME, emergency=True)
