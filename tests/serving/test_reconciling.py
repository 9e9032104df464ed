# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""Engines and gateways follow the release log, whatever happens to them; registry, processes and workers are real."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from registry.aliases import read_aliases, write_view
from registry.names import releases_name
from registry.releases import append, read_log
from serving.gateway.launching import stop_workers
from serving.gateway.records import list_workers
from serving.gateways import states
from serving.placement import unload
from serving.reconciler_process import start_reconciler, stop_reconciler
from serving.reconciling import Reconciler
from serving.records import Engine, serving_engines
from serving.releasing import promote
from serving.upkeep import Upkeep
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME
from tests.serving.yard import Yard, control, kill, names, unload_all, wait_until, yard
from turnout.errors import EngineError, Refused


def revived(yard: Yard) -> Engine:
    """The engine that upkeep starts in place of a dead one."""
    assert "died and is started again" in Upkeep(yard.reconciler).start_processes()[0]
    wait_until(lambda: all("still starting" not in told for told in yard.run().problems.get("", ())), "it is ready")
    return serving_engines(yard.home)[0]


def test_what_the_log_names_is_loaded_and_routed(yard: Yard) -> None:
    engine = yard.engine()
    one, two, three = (yard.make(weights) for weights in (b"one", b"two", b"three"))
    outcome = yard.serve(one, two, three)
    assert outcome.problems == {} and names(engine) == ["incident-bot-v2", "incident-bot-v3"]
    on = yard.routes().names[NAME]
    assert (on.champion, on.previous, on.event) == (3, 2, 3) and yard.replica(engine).ready == tuple(names(engine))
    generation = yard.routes().generation
    yard.run()
    assert yard.routes().generation == generation


def test_a_killed_engine_comes_back_with_what_fits(yard: Yard) -> None:
    yard.config = yard.config.model_copy(update={"max_cpu_loras": 2})
    engine = yard.engine()
    one, two, other = yard.make(b"one"), yard.make(b"two"), yard.make(b"other", "other")
    yard.serve(one, two, other)
    kill(engine.pid)
    assert "does not answer" in str(yard.run().problems) or serving_engines(yard.home) == []
    again = revived(yard)
    assert again.pid != engine.pid and again.url == engine.url
    # Both champions; the rollback's target finds no room.
    assert yard.run().problems == {} and names(again) == ["incident-bot-v2", "other-v1"]


def test_an_engine_with_room_gets_the_rollback_target_too(yard: Yard) -> None:
    engine = yard.engine()
    yard.serve(yard.make(b"one"), yard.make(b"two"))
    kill(engine.pid)
    assert names(revived(yard)) == ["incident-bot-v1", "incident-bot-v2"]
    assert yard.run().problems == {} and yard.routes().replicas[0].ready == ("incident-bot-v1", "incident-bot-v2")


def test_an_adapter_that_was_unloaded_by_hand_comes_back(yard: Yard) -> None:
    engine = yard.engine()
    yard.serve(yard.make(b"one"), yard.make(b"two"))
    unload_all(engine)
    assert names(engine) == []
    assert yard.run().problems == {} and names(engine) == ["incident-bot-v1", "incident-bot-v2"]


def test_an_event_that_nobody_told_of_is_followed(yard: Yard) -> None:
    yard.engine()
    one, two = yard.make(b"one"), yard.make(b"two")
    yard.serve(one)
    yard.append(two)
    assert yard.run().problems == {} and yard.routes().names[NAME].champion == 2


def test_a_registry_that_was_restored_is_followed(yard: Yard) -> None:
    yard.engine()
    one, two = yard.make(b"one"), yard.make(b"two")
    yard.serve(one, two, one, two)
    yard.client.delete_registered_model(releases_name(NAME))
    append(yard.client, NAME, kind="promote", champion=one.number, parent=0)
    assert yard.run().problems == {}
    on = yard.routes().names[NAME]
    assert (on.champion, on.event) == (one.number, 1)
    # A process that starts now reads the same.
    assert Reconciler(yard.home).switch(NAME).routes == yard.routes()


def test_an_unproven_version_gets_no_traffic(yard: Yard) -> None:
    engine = yard.engine()
    yard.serve(yard.make(b"one"))
    unproven = yard.make(b"two", proven=False)
    with pytest.raises(Refused, match=r"is not proven on .* its proof is missing"):
        promote(yard.home, NAME, 2)
    assert yard.release().head == 1
    # Another machine, where it is proven, makes it the champion all the same.
    outcome = yard.serve(unproven)
    assert yard.routes().names[NAME].champion == 1 and unproven.served_name not in yard.replica(engine).ready
    told = str(outcome.problems)
    assert "incident-bot-v2 is not proven on" in told and "v1 gets the traffic" in told


def test_a_first_champion_is_served_though_unproven(yard: Yard) -> None:
    """As after an engine upgrade: nothing else is served, and better than nothing."""
    yard.engine()
    yard.serve(yard.make(b"one", proven=False))
    assert yard.routes().names[NAME].champion == 1 and yard.routes().replicas[0].ready == ("incident-bot-v1",)


def test_without_the_registry_traffic_goes_on(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = yard.engine()
    yard.serve(yard.make(b"one"), yard.make(b"two"))
    routes = yard.routes()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    outcome = yard.run()
    assert yard.routes() == routes and "the registry is out of reach" in outcome.problems[""][0]
    # Another process knows nothing but the routes, and loads what they name.
    unload(engine, "incident-bot-v2")
    assert "out of reach" in str(Reconciler(yard.home).run_pass().problems)
    assert names(engine) == ["incident-bot-v1", "incident-bot-v2"] and yard.routes().names == routes.names


def test_two_replicas_switch_together(yard: Yard) -> None:
    first, second = yard.replicas(2)
    one, two = yard.make(b"one"), yard.make(b"two")
    yard.serve(one)
    assert names(first) == names(second) == ["incident-bot-v1"] and len(yard.routes().replicas) == 2
    control(second, refusing=["incident-bot-v2"])
    outcome = yard.serve(two)
    assert "incident-bot-v2" in yard.replica(first).ready and "refuses to load incident-bot-v2" in str(outcome.problems)
    assert yard.routes().names[NAME].champion == 1
    control(second)
    assert yard.run().problems == {} and yard.routes().names[NAME].champion == 2
    assert yard.replica(first).ready == yard.replica(second).ready == ("incident-bot-v1", "incident-bot-v2")


def test_a_version_that_a_request_uses_is_not_unloaded(yard: Yard) -> None:
    yard.config = yard.config.model_copy(update={"max_cpu_loras": 2})
    engine = yard.engine()
    one, two, three = (yard.make(weights) for weights in (b"one", b"two", b"three"))
    yard.serve(one, two)
    yard.gateway()
    with yard.held_request(engine, "incident-bot-v1") as answer, ThreadPoolExecutor(1) as pool:
        preparing = pool.submit(yard.reconciler.prepare, NAME, three.number)
        # The room that it needs is the earlier champion's, which takes no more requests from now on.
        wait_until(lambda: "incident-bot-v1" not in yard.replica(engine).ready, "it is closed")
        assert "incident-bot-v1" in names(engine) and not preparing.done()
        assert yard.in_flight(engine.id) == 1
        control(engine)
        assert preparing.result(20) == [engine.id]
        assert answer.result(5).json()["model"] == "incident-bot-v1"
    assert names(engine) == ["incident-bot-v2", "incident-bot-v3"]


def test_what_no_request_uses_makes_room_first(yard: Yard) -> None:
    yard.config = yard.config.model_copy(update={"max_cpu_loras": 3})
    engine = yard.engine()
    one, two, three, four = (yard.make(weights) for weights in (b"one", b"two", b"three", b"four"))
    yard.serve(one, two)
    yard.reconciler.prepare(NAME, three.number)
    assert names(engine) == ["incident-bot-v1", "incident-bot-v2", "incident-bot-v3"]
    yard.gateway()
    # No route names v3, but a client does; the rollback's target is not in use.
    with yard.held_request(engine, "incident-bot-v3"):
        yard.reconciler.prepare(NAME, four.number)
        assert names(engine) == ["incident-bot-v2", "incident-bot-v3", "incident-bot-v4"]


def test_an_alias_moved_by_hand_counts_from_the_second_look_on(yard: Yard) -> None:
    yard.engine()
    yard.serve(yard.make(b"one"), yard.make(b"two"))
    write_view(yard.client, NAME, yard.release())
    yard.client.set_registered_model_alias(NAME, "champion", "1")
    upkeep = Upkeep(yard.reconciler)
    assert upkeep.tend_names() == (False, {}) and yard.release().champion == 2
    assert upkeep.tend_names() == (True, {})
    yard.run()
    assert yard.release().kind == "manual" and yard.routes().names[NAME].champion == 1
    assert upkeep.tend_names() == (False, {}) and read_aliases(yard.client, NAME) == {"champion": 1, "previous": 2}


def test_an_alias_on_an_unproven_version_moves_no_traffic(yard: Yard) -> None:
    yard.engine()
    yard.serve(yard.make(b"one"))
    yard.make(b"two", proven=False)
    write_view(yard.client, NAME, yard.release())
    yard.client.set_registered_model_alias(NAME, "champion", "2")
    upkeep = Upkeep(yard.reconciler)
    upkeep.tend_names()
    for _ in range(2):
        changed, problems = upkeep.tend_names()
        assert not changed and "moved to v2 by hand, and traffic stays on v1" in problems[NAME][0]
    assert yard.release().champion == 1 and len(read_log(yard.client, NAME)) == 1


def test_aliases_that_are_only_stale_are_written_anew(yard: Yard) -> None:
    yard.engine()
    yard.serve(yard.make(b"one"))
    write_view(yard.client, NAME, yard.release())
    # Whoever released this was killed before it could write the aliases.
    yard.serve(yard.make(b"two"))
    upkeep = Upkeep(yard.reconciler)
    assert [upkeep.tend_names() for _ in range(3)] == 3 * [(False, {})]
    assert read_aliases(yard.client, NAME) == {"champion": 2, "previous": 1} and len(read_log(yard.client, NAME)) == 2


@pytest.mark.slow
def test_the_processes_of_a_home_mend_each_other(yard: Yard) -> None:
    """Everything runs: an adapter unloaded by hand, a killed worker and a killed engine are back in seconds."""
    engine = yard.engine()
    yard.serve(yard.make(b"one"), yard.make(b"two"))
    yard.gateway()
    start_reconciler(yard.home, follow_log=True)
    unload(engine, "incident-bot-v2")
    wait_until(lambda: yard.ask().status_code == 200, "the champion answers again")
    (worker,) = list_workers(yard.home)
    kill(worker.pid)
    again = wait_until(lambda: list_workers(yard.home), "a worker runs again")
    assert again[0].pid != worker.pid
    kill(engine.pid)
    wait_until(lambda: yard.ask().status_code == 200, "the champion answers from a new engine")
    assert serving_engines(yard.home)[0].pid != engine.pid
