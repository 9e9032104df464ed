# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""Promote and rollback, in this home and from another machine; registry, gateway and reconciler are real."""

import time
from pathlib import Path

import pytest

from registry.aliases import read_aliases
from registry.reach import embedded_uri
from registry.releases import read_log
from registry.versions import Version, set_candidate
from serving.canary import CanarySchedule
from serving.control import GATEWAYS
from serving.placement import unload
from serving.reconciler_process import start_reconciler
from serving.records import Engine
from serving.releasing import promote, rollback
from serving.tokens import ADMIN_TOKEN, admin_token
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME
from tests.serving.yard import Yard, names, yard
from turnout.errors import BadInput, EngineUnreachable, NotFound, Refused, RegistryConflict
from turnout.paths import Home


@pytest.fixture
def engine(yard: Yard) -> Engine:
    return yard.engine()


@pytest.fixture
def versions(yard: Yard, engine: Engine) -> list[Version]:
    """v1 was released and is served, then v2; v3 waits."""
    made = [yard.make(weights) for weights in (b"one", b"two", b"three")]
    yard.serve(*made[:2])
    return made


def champion(yard: Yard) -> tuple[int | None, int]:
    """By the log, and by the routes."""
    return yard.release().champion, yard.routes().names[NAME].champion


def test_the_candidate_is_promoted_where_no_version_is_named(yard: Yard, versions: list[Version]) -> None:
    with pytest.raises(NotFound, match="has no candidate; versions: v3, v2, v1"):
        promote(yard.home, NAME)
    set_candidate(yard.client, NAME, 3)
    steps: list[str] = []
    switch = promote(yard.home, NAME, reason="better", actor="ada", on_step=steps.append)
    assert (switch.before, switch.to, switch.changed, switch.kind, switch.loaded_now) == (2, 3, True, "promote", True)
    assert switch.generation == 3 and switch.pending == switch.warnings == () and 0 < switch.seconds < 5
    assert champion(yard) == (3, 3) and steps == ["preparing v3", "event 3 appended"]
    assert read_aliases(yard.client, NAME) == {"champion": 3, "previous": 2}
    event = read_log(yard.client, NAME)[-1]
    assert (event.actor, event.reason) == ("ada", "better")


def test_what_is_the_champion_already_is_no_event(yard: Yard, versions: list[Version]) -> None:
    switch = promote(yard.home, NAME, 2)
    assert not switch.changed and switch.to == 2 and yard.release().head == 2


def test_another_champion_than_expected_is_a_conflict(yard: Yard, versions: list[Version]) -> None:
    for call in (lambda: promote(yard.home, NAME, 3, expect=1), lambda: rollback(yard.home, NAME, expect=1)):
        with pytest.raises(RegistryConflict, match="is at v2 now, not at v1; nothing was changed"):
            call()
    assert champion(yard) == (2, 2) and yard.release().head == 2
    assert promote(yard.home, NAME, 3, expect=2).changed


def test_a_release_since_the_decision_is_a_conflict(yard: Yard, versions: list[Version]) -> None:
    seen = yard.release()
    yard.append(1, kind="rollback", actor="bob")
    with pytest.raises(RegistryConflict, match=r"bob came first with the rollback of v1 \(event 3"):
        promote(yard.home, NAME, 3, seen=seen)
    assert yard.release().champion == 1


def test_a_version_that_is_not_there_is_not_found(yard: Yard, versions: list[Version]) -> None:
    for call in (lambda: promote(yard.home, NAME, 9), lambda: rollback(yard.home, NAME, to=9)):
        with pytest.raises(NotFound, match="no version 9"):
            call()
    for call in (lambda: promote(yard.home, "nobody"), lambda: rollback(yard.home, "nobody")):
        with pytest.raises(NotFound, match="nobody"):
            call()
    assert yard.release().head == 2


def test_rollbacks_go_back_past_what_was_rolled_back(yard: Yard, versions: list[Version]) -> None:
    promote(yard.home, NAME, 3)
    first = rollback(yard.home, NAME, reason="it rambles")
    assert (first.before, first.to, first.kind, first.loaded_now) == (3, 2, "rollback", False)
    # v3, the newest of all, is no target any more.
    assert rollback(yard.home, NAME).to == 1 and champion(yard) == (1, 1)
    with pytest.raises(Refused, match="no earlier champion than v1 that was not rolled back") as refusal:
        rollback(yard.home, NAME)
    assert "--to VERSION" in refusal.value.next_step and yard.release().rolled_back == {2, 3}
    assert rollback(yard.home, NAME, to=3).to == 3 and champion(yard) == (3, 3)
    assert yard.release().rolled_back == {1, 2} and not rollback(yard.home, NAME, to=3).changed


def test_two_who_roll_back_in_the_same_moment_roll_back_once(yard: Yard, versions: list[Version]) -> None:
    promote(yard.home, NAME, 3)
    asked_at = time.time()
    assert rollback(yard.home, NAME, asked_at=asked_at).to == 2
    with pytest.raises(RegistryConflict, match=r"was rolled back to v2 .* after this was asked for"):
        rollback(yard.home, NAME, asked_at=asked_at)
    assert champion(yard) == (2, 2)
    # Whoever says where to, or asks later, means it.
    assert rollback(yard.home, NAME, asked_at=time.time() + 1).to == 1


def test_a_name_without_a_champion_has_nothing_to_roll_back(yard: Yard, engine: Engine) -> None:
    yard.make(b"one")
    with pytest.raises(Refused, match="has no champion to leave"):
        rollback(yard.home, NAME)


def test_a_rollback_target_that_made_room_is_loaded_first(yard: Yard, engine: Engine, versions: list[Version]) -> None:
    # Nobody has noticed yet, so the routes call it ready.
    unload(engine, "incident-bot-v1")
    switch = rollback(yard.home, NAME)
    assert switch.to == 1 and switch.loaded_now and "incident-bot-v1" in names(engine) and champion(yard) == (1, 1)


def test_a_canary_or_shadow_needs_another_champion(yard: Yard, engine: Engine) -> None:
    yard.make(b"one")
    with pytest.raises(BadInput, match="no other champion") as refusal:
        promote(yard.home, NAME, 1, canary=5)
    assert "without --canary" in refusal.value.next_step
    promote(yard.home, NAME, 1)
    with pytest.raises(BadInput, match="no other champion"):
        promote(yard.home, NAME, 1, shadow=5)


def test_a_canary_goes_beside_the_champion_and_a_rollback_ends_it(yard: Yard, versions: list[Version]) -> None:
    set_candidate(yard.client, NAME, 3)
    switch = promote(yard.home, NAME, canary=5, schedule=CanarySchedule(steps=(5, 50), sticky="key"))
    assert (switch.kind, switch.before, switch.to) == ("canary", 2, 3)
    on = yard.routes().names[NAME]
    assert (on.champion, on.weights, on.sticky_by_key, on.previous) == (2, {"3": 5.0}, True, 1)
    assert yard.release().schedule["steps"] == [5, 50]
    # The pipeline, which finds its champion promoted, leaves a canary beside it alone.
    assert not promote(yard.home, NAME, 2, keep_arms=True).changed
    ended = rollback(yard.home, NAME)
    assert (ended.kind, ended.before, ended.to) == ("abort", 3, 2)
    assert yard.routes().names[NAME].weights == {} and champion(yard) == (2, 2)
    assert "candidate" not in read_aliases(yard.client, NAME)
    # The champion before is still what the next rollback goes to.
    assert rollback(yard.home, NAME).to == 1


def test_promoting_the_champion_ends_what_runs_beside_it(yard: Yard, versions: list[Version]) -> None:
    shadow = promote(yard.home, NAME, 3, shadow=20)
    assert shadow.kind == "shadow" and yard.routes().names[NAME].shadow == {"3": 20.0}
    switch = promote(yard.home, NAME, 2)
    assert switch.changed and switch.kind == "promote" and yard.routes().names[NAME].shadow == {}


def test_without_an_engine_the_log_is_written_and_nothing_follows(yard: Yard) -> None:
    yard.build = "vllm 0"
    yard.make(b"one")
    switch = promote(yard.home, NAME, 1)
    assert switch.changed and yard.release().champion == 1 and switch.pending == ("this home",)


@pytest.fixture
def served(yard: Yard, versions: list[Version], monkeypatch: pytest.MonkeyPatch) -> str:
    """The yard's gateway and its reconciler run; commands come from another machine."""
    url = yard.gateway()
    start_reconciler(yard.home, follow_log=True)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", embedded_uri(yard.home))
    monkeypatch.setenv(ADMIN_TOKEN, admin_token(yard.home))
    monkeypatch.setenv(GATEWAYS, url)
    return url


def test_another_machine_switches_through_the_gateway(yard: Yard, served: str, tmp_path: Path) -> None:
    elsewhere = Home(tmp_path / "elsewhere")
    assert yard.ask().json()["model"] == "incident-bot-v2"
    switch = promote(elsewhere, NAME, 3)
    assert switch.changed and switch.loaded_now and switch.pending == switch.warnings == ()
    answer = yard.ask()
    assert answer.json()["model"] == answer.headers["x-turnout-version"] == "incident-bot-v3"
    back = rollback(elsewhere, NAME)
    assert back.to == 2 and not back.loaded_now and back.seconds < 1
    assert yard.ask().json()["model"] == "incident-bot-v2"
    yard.make(b"four", proven=False)
    with pytest.raises(Refused, match="is not proven"):
        promote(elsewhere, NAME, 4)


def test_a_gateway_that_is_gone_is_pending(
    yard: Yard, served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = "http://127.0.0.1:1"
    monkeypatch.setenv(GATEWAYS, f"{gone}, {served}/")
    switch = promote(Home(tmp_path / "elsewhere"), NAME, 3)
    assert switch.pending == (gone,) and gone in " ".join(switch.warnings)
    assert yard.ask().json()["model"] == "incident-bot-v3"
    monkeypatch.setenv(GATEWAYS, gone)
    with pytest.raises(EngineUnreachable, match="does not answer"):
        promote(Home(tmp_path / "elsewhere"), NAME, 1)
    assert yard.release().champion == 3
