# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""Restart mode: an engine that can take a version joins, gets the traffic, and the old one drains and stops."""

import shutil
from pathlib import Path

import pytest

from registry.adapters import fetch
from registry.versions import Version
from serving.records import Engine, running_engines
from serving.refilling import revive
from serving.releasing import promote, rollback
from serving.upkeep import Upkeep
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME
from tests.serving.yard import Yard, control, kill, known_base, names, wait_until, yard
from turnout.errors import EngineError


@pytest.fixture
def engine(yard: Yard) -> Engine:
    """Takes ranks up to 8, and serves v1."""
    yard.config = yard.config.model_copy(update={"mode": "restart"})
    engine = yard.engine()
    yard.serve(yard.make(b"one"))
    return engine


def roles(yard: Yard) -> dict[str, str]:
    return {engine.id: engine.role for engine in running_engines(yard.home)}


def newest(yard: Yard) -> Engine:
    return running_engines(yard.home)[-1]


def test_a_successor_takes_over_and_the_old_engine_finishes_its_requests(yard: Yard, engine: Engine) -> None:
    other = yard.make(b"other", "other")
    yard.serve(other)
    yard.make(b"two", rank=16)
    yard.gateway()
    with yard.held_request(engine) as answer:
        switch = promote(yard.home, NAME, 2)
        assert switch.changed and switch.loaded_now and switch.pending == ()
        new = newest(yard)
        assert roles(yard) == {engine.id: "draining", new.id: "serving"} and new.max_lora_rank == 16
        assert names(new) == ["incident-bot-v1", "incident-bot-v2", "other-v1"]
        assert [replica.id for replica in yard.routes().replicas] == [new.id]
        # Both names are answered by the new engine, while the old one still has its request.
        assert yard.ask().json()["model"] == "incident-bot-v2" and yard.ask("other").json()["model"] == "other-v1"
        yard.run()
        assert engine.id in roles(yard) and yard.in_flight(engine.id) == 1
        control(engine)
        assert answer.result(10).json()["model"] == "incident-bot-v1"
        wait_until(lambda: not yard.in_flight(engine.id), "the last answer is through")
    yard.run()
    assert roles(yard) == {new.id: "serving"} and not engine.alive
    # The new engine holds what a rollback goes to, so that is as quick as ever.
    back = rollback(yard.home, NAME)
    assert not back.loaded_now and yard.ask().json()["model"] == "incident-bot-v1"


def test_in_hot_mode_what_does_not_fit_is_refused(yard: Yard) -> None:
    yard.engine()
    yard.serve(yard.make(b"one"))
    yard.make(b"two", rank=16)
    with pytest.raises(EngineError, match="up to rank 8, and this one has rank 16") as refusal:
        promote(yard.home, NAME, 2)
    assert "serving.mode=restart" in refusal.value.next_step and yard.release().champion == 1


def test_a_joining_engine_gets_no_traffic_before_the_release(yard: Yard, engine: Engine) -> None:
    yard.make(b"two", rank=16)
    (joined,) = yard.reconciler.prepare(NAME, 2)
    for _ in range(2):
        assert yard.run().problems == {}
    assert roles(yard) == {engine.id: "serving", joined: "joining"}
    assert [replica.id for replica in yard.routes().replicas] == [engine.id]
    # Asked for once more, it is found.
    assert yard.reconciler.prepare(NAME, 2) == [] and len(roles(yard)) == 2
    yard.append(2)
    yard.run()
    assert roles(yard) == {joined: "serving"} and yard.routes().names[NAME].champion == 2


def test_a_successor_that_lacks_a_champion_is_stopped(yard: Yard, engine: Engine) -> None:
    yard.make(b"two", rank=16)
    folder = yard.home.adapters / yard.reconciler.follower.routed_version(NAME, 1).adapter_sha256
    folder.chmod(0o755)
    shutil.rmtree(folder)
    with pytest.raises(EngineError, match="the new engine cannot take over incident-bot-v1"):
        yard.reconciler.prepare(NAME, 2)
    assert roles(yard) == {engine.id: "serving"} and yard.release().champion == 1


def test_another_base_brings_another_pool_and_the_unused_one_stops(yard: Yard, engine: Engine, tmp_path: Path) -> None:
    base = known_base(tmp_path, "newer", "9" * 64)
    yard.make(b"two", base=base)
    yard.reconciler.follower.bases[base.sha256] = base  # as the pipeline that resolved it does
    yard.reconciler.prepare(NAME, 2)
    new = newest(yard)
    assert new.role == "joining" and new.base == base
    yard.append(2)
    assert yard.run().problems == {}
    assert roles(yard) == {new.id: "serving"} and set(yard.routes().bases) == {yard.base.sha256, base.sha256}
    assert [replica.base_sha256 for replica in yard.routes().replicas] == [base.sha256]
    # Back: its base has no engine any more, so one is started.
    back = rollback(yard.home, NAME)
    assert back.to == 1 and back.loaded_now and newest(yard).base == yard.base
    assert yard.run().problems == {} and list(roles(yard)) == [newest(yard).id]


def test_a_base_that_another_name_uses_keeps_its_pool(yard: Yard, engine: Engine, tmp_path: Path) -> None:
    base = known_base(tmp_path, "newer", "9" * 64)
    yard.serve(yard.make(b"other", "other"))
    yard.make(b"two", base=base)
    yard.reconciler.follower.bases[base.sha256] = base
    yard.reconciler.prepare(NAME, 2)
    yard.append(2)
    assert yard.run().problems == {}
    assert set(roles(yard).values()) == {"serving"} and len(roles(yard)) == 2
    yard.gateway()
    assert yard.ask().json()["model"] == "incident-bot-v2" and yard.ask("other").json()["model"] == "other-v1"
    assert yard.ask("newer").json()["model"] == "newer" and yard.ask("tiny").json()["model"] == "tiny"


def test_only_what_served_is_started_again(yard: Yard, engine: Engine) -> None:
    yard.make(b"two", rank=16)
    yard.reconciler.prepare(NAME, 2)
    kill(newest(yard).pid)
    wait_until(lambda: len(roles(yard)) == 1, "the joining engine is dead")
    assert revive(yard.home) == [] and roles(yard) == {engine.id: "serving"}


def test_a_pool_is_filled_again_after_its_successor_took_over(yard: Yard) -> None:
    yard.config = yard.config.model_copy(update={"mode": "restart", "replicas": 2})
    yard.replicas(2)
    yard.serve(yard.make(b"one"))
    yard.make(b"two", rank=16)
    promote(yard.home, NAME, 2)
    assert list(roles(yard).values()) == ["serving"]
    upkeep = Upkeep(yard.reconciler)
    assert upkeep.start_processes() == upkeep.start_processes() == []
    assert list(roles(yard).values()) == ["serving", "serving"]
    wait_until(lambda: yard.run().problems == {} and len(yard.routes().replicas) == 2, "both serve")
    assert [replica.ready for replica in yard.routes().replicas] == 2 * [("incident-bot-v1", "incident-bot-v2")]
    assert {engine.max_lora_rank for engine in running_engines(yard.home)} == {16}
