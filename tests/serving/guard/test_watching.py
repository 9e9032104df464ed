# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""Engines whose memory really grows, under a limit that is set low; registry, gateways and processes are real."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest

from serving.gateway.records import list_workers
from serving.guard.watching import Guard
from serving.reconciler_process import start_reconciler
from serving.records import running_engines, serving_engines
from serving.releasing import rollback
from serving.status import compare
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME
from tests.serving.yard import Yard, control, names, wait_until, yard

pytestmark = pytest.mark.slow

LIMIT_MIB = 100
V1, V2, V3 = (f"incident-bot-v{number}" for number in (1, 2, 3))


def guarded(yard: Yard, replicas: int = 1, **guard: Any) -> None:
    """Host and container play no part below these lines, unless the machine is nearly full."""
    values = {"every_s": 0.2, "clear_at": 0.7, "drain_at": 0.9, "engine_limit_gb": LIMIT_MIB / 1024} | guard
    config = yard.config.model_dump() | {"guard": values, "replicas": replicas}
    yard.config = type(yard.config).model_validate(config)


def pids(yard: Yard) -> set[int]:
    """Of the engines that run, whatever their role."""
    return {engine.pid for engine in running_engines(yard.home)}


def settled(guard: Guard) -> Guard:
    """After one look, and what it began."""
    guard.look()
    wait_until(lambda: not any(thread.name == "guard acts" for thread in threading.enumerate()), "it has acted")
    guard.look()
    return guard


@contextmanager
def asking(yard: Yard) -> Iterator[list[httpx.Response]]:
    """Requests one after the other all the time, and their answers."""
    answers: list[httpx.Response] = []
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.02):
            with suppress(httpx.TransportError):
                answers.append(yard.ask())

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        yield answers
    finally:
        over.set()
        asker.join(30)


def test_what_no_route_names_is_unloaded_and_is_enough(yard: Yard) -> None:
    guarded(yard)
    engine = yard.engine()
    one, two, three = (yard.make(weights) for weights in (b"one", b"two", b"three"))
    yard.serve(one, two)
    yard.reconciler.prepare(NAME, three.number)
    guard = settled(Guard(yard.home))
    assert guard.problems() == [] and guard.standings[engine.id].state == "fine"
    control(engine, grow={V1: 30, V3: 50})
    settled(guard)
    assert names(engine) == [V1, V2] and guard.standings[engine.id].state == "fine"
    assert guard.held_back == {V3}


def test_the_target_of_a_rollback_goes_last_and_comes_back_for_it(yard: Yard) -> None:
    guarded(yard)
    engine = yard.engine()
    yard.serve(yard.make(b"one"), yard.make(b"two"))
    yard.gateway()
    guard = settled(Guard(yard.home))
    control(engine, grow={V1: 25, V2: 52})
    settled(guard)
    assert names(engine) == [V2] and yard.replica(engine).ready == (V2,)
    assert yard.ask().json()["model"] == V2
    # A pass does not undo it, and a rollback loads what it needs.
    yard.reconciler.held_back = guard.held_back
    assert yard.run().problems == {} and names(engine) == [V2]
    assert rollback(yard.home, NAME).to == 1
    assert yard.ask().json()["model"] == V1


def test_what_requests_use_stays_and_nothing_is_cleared_over_and_over(yard: Yard) -> None:
    guarded(yard)
    engine = yard.engine()
    yard.serve(yard.make(b"one"), yard.make(b"two"))
    yard.gateway()
    guard = settled(Guard(yard.home))
    with yard.held_request(engine, V1):
        control(engine, holding=True, grow={V2: 70})
        settled(guard)
        assert names(engine) == [V1, V2]
    (told,) = guard.problems()
    assert "serving.guard.engine_limit_gb is used to " in told and "nothing there can be cleared" in told
    cleared_at = guard.standings[engine.id].cleared_at
    assert guard.look().clear == () and guard.standings[engine.id].cleared_at == cleared_at


def test_a_full_engine_restarts_while_others_serve(yard: Yard) -> None:
    guarded(yard, replicas=2)
    first, second = yard.replicas(2)
    yard.serve(yard.make(b"one"), yard.make(b"two"))
    yard.gateway()
    start_reconciler(yard.home, follow_log=True)
    with asking(yard) as answers:
        wait_until(lambda: len(answers) > 5, "requests are answered")
        control(first, grow={"a leak": 90})
        wait_until(lambda: first.pid not in pids(yard), "it is stopped", 30)
        wait_until(lambda: len(yard.routes().replicas) == 2 and yard.replica(first).ready, "it is back", 30)
        assert second.pid in pids(yard)
    assert {answer.status_code for answer in answers} == {200}


def test_the_only_engine_is_replaced_where_there_is_room(yard: Yard) -> None:
    guarded(yard)
    engine = yard.engine()
    yard.serve(yard.make(b"one"), yard.make(b"two"))
    yard.gateway()
    start_reconciler(yard.home, follow_log=True)
    with asking(yard) as answers:
        wait_until(lambda: len(answers) > 5, "requests are answered")
        control(engine, grow={"a leak": 90})
        wait_until(lambda: engine.pid not in pids(yard), "it is stopped", 30)
    assert {answer.status_code for answer in answers} == {200}
    (new,) = serving_engines(yard.home)
    assert new.id != engine.id and V2 in names(new)


def test_without_room_the_only_engine_answers_what_it_has_and_comes_back(yard: Yard) -> None:
    """Any machine is used to a hundredth, so there is no room for a second engine."""
    guarded(yard, clear_at=0.01)
    engine = yard.engine()
    yard.serve(yard.make(b"one"), yard.make(b"two"))
    yard.gateway()
    start_reconciler(yard.home, follow_log=True)
    wait_until(lambda: names(engine) == [V2], "it was seen, and cleared")
    with yard.held_request(engine) as held:
        control(engine, holding=True, grow={"a leak": 90})
        wait_until(lambda: yard.routes().replicas == (), "it takes no more")
        refused = yard.ask()
        assert refused.status_code == 503 and int(refused.headers["Retry-After"]) > 0
        assert "requests are refused" in str(wait_until(lambda: compare(yard.home, None)["problems"], "it is told"))
        assert engine.pid in pids(yard) and not held.done()
        control(engine)
        assert held.result(10).json()["model"] == V2
    wait_until(lambda: yard.ask().status_code == 200, "it answers again", 30)
    (again,) = serving_engines(yard.home)
    assert again.id == engine.id and again.pid != engine.pid
    shown = httpx.get(f"{list_workers(yard.home)[0].url}/metrics").text
    assert "turnout_guard_state" in shown


def test_an_engine_that_needs_what_it_has_is_not_restarted(yard: Yard) -> None:
    """It is past the line from the start, so another one would be too."""
    guarded(yard, engine_limit_gb=0.008)
    engine = yard.engine()
    yard.serve(yard.make(b"one"))
    guard = settled(settled(Guard(yard.home)))
    assert guard.standings[engine.id].state == "clearing" and "would give little back" in guard.problems()[0]
    # Nor by another guard, which finds it as it is.
    assert settled(Guard(yard.home)).standings[engine.id].state == "clearing" and engine.alive
