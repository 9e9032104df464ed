# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""Canaries step forward and end by what a real gateway counted."""

import pytest
from mlflow import MlflowClient

from registry.aliases import read_aliases
from registry.releases import read_log
from registry.versions import get_version, set_candidate
from serving.canary import CanarySchedule
from serving.canarying import ACTOR, figures_of, tend
from serving.records import Engine
from serving.releasing import promote
from serving.upkeep import Upkeep
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME
from tests.serving.yard import Yard, control, yard

SCHEDULE = CanarySchedule(steps=(50, 100), hold_s=0, min_requests=10, max_error_rate=0.05, max_latency_ratio=1000)


@pytest.fixture
def engine(yard: Yard) -> Engine:
    """v1 serves, v2 gets half of the requests, behind a gateway."""
    engine = yard.engine()
    one, _ = yard.make(b"one"), yard.make(b"two")
    yard.serve(one)
    yard.gateway()
    set_candidate(yard.client, NAME, 2)
    promote(yard.home, NAME, canary=50, schedule=SCHEDULE)
    yard.run()
    return engine


def ask_until(yard: Yard, requests: int) -> list[int]:
    """Ask until the canary has so many requests; returns all status codes."""
    codes = []
    while (arm := figures_of(yard.home, NAME, yard.release().generation).get(2)) is None or arm.requests < requests:
        codes += [yard.ask().status_code for _ in range(requests)]
    return codes


def test_a_canary_that_holds_steps_and_becomes_the_champion(yard: Yard, engine: Engine) -> None:
    upkeep = Upkeep(yard.reconciler)
    assert upkeep.tend_names() == (False, {}) and yard.release().kind == "canary"
    assert set(ask_until(yard, 10)) == {200}
    assert upkeep.tend_names() == (True, {})
    yard.run()
    assert yard.release().kind == "step" and yard.routes().names[NAME].weights == {"2": 100.0}
    # The counts begin anew with every step.
    assert upkeep.tend_names() == (False, {}) and yard.release().kind == "step"
    assert {yard.ask().json()["model"] for _ in range(10)} == {"incident-bot-v2"}
    assert upkeep.tend_names() == (True, {})
    yard.run()
    on, event = yard.routes().names[NAME], read_log(yard.client, NAME)[-1]
    assert (on.champion, on.weights, on.previous) == (2, {}, 1) and (event.kind, event.actor) == ("promote", ACTOR)
    assert event.figures["canary"]["requests"] == 10
    assert read_aliases(yard.client, NAME) == {"champion": 2, "previous": 1}


def test_a_canary_that_fails_is_aborted_before_its_time(yard: Yard, engine: Engine) -> None:
    control(engine, failing=["incident-bot-v2"])
    assert set(ask_until(yard, 10)) == {200, 500}
    upkeep = Upkeep(yard.reconciler)
    assert upkeep.tend_names() == (True, {})
    yard.run()
    event = read_log(yard.client, NAME)[-1]
    assert event.kind == "abort" and "requests failed (100.0%)" in event.reason
    assert event.figures["canary"]["errors"] == event.figures["canary"]["requests"] >= 10
    assert yard.routes().names[NAME].weights == {} and {yard.ask().json()["model"]} == {"incident-bot-v1"}
    assert "candidate" not in read_aliases(yard.client, NAME)
    assert "canary aborted" in get_version(yard.client, NAME, 2).tags["refused"]


def test_of_two_reconcilers_that_see_the_same_one_acts(yard: Yard, engine: Engine, client: MlflowClient) -> None:
    ask_until(yard, 10)
    seen = yard.release()
    assert tend(yard.home, client, NAME, seen) and tend(yard.home, client, NAME, seen)
    log = read_log(yard.client, NAME)
    assert [(event.kind, event.effective) for event in log[2:]] == [("step", True), ("step", False)]
    assert yard.release().weights == {2: 100.0}
