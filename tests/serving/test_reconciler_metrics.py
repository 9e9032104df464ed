# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""What Prometheus reads of a pass; registry, engines' processes, reconciler and gateway are real."""

import time

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from serving.gateway.records import list_workers
from serving.guard.watching import Guard
from serving.reconciler_metrics import ReconcilerMetrics
from serving.reconciler_process import start_reconciler, stop_reconciler
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME
from tests.serving.yard import Yard, kill, prove, wait_until, yard

Samples = dict[tuple[str, tuple[str, ...]], float]


def parsed(text: str) -> Samples:
    """Every value by its name and its labels' values in the order of their names; no family may come twice."""
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def written(yard: Yard, metrics: ReconcilerMetrics) -> Samples:
    metrics.write(yard.run().routes, yard.reconciler.desired)
    return parsed(yard.home.reconciler_metrics.read_text())


def test_a_pass_tells_what_it_found(yard: Yard) -> None:
    engine = yard.engine()
    one, two = yard.make(b"one"), yard.make(b"two")
    yard.serve(one, two)
    guard = Guard(yard.home)
    guard.look()
    metrics = ReconcilerMetrics(yard.home, guard)
    before = time.time()
    found = written(yard, metrics)
    assert found["turnout_in_sync", (NAME,)] == 1
    for number in ("1", "2"):
        assert found["turnout_proof", (NAME, engine.id, "proven", number)] == 1
        assert found["turnout_parity_difference_nats", (NAME, number)] == 0.001
        assert ("turnout_parity_tolerance_nats", (NAME, number)) in found
    assert found["turnout_engine_up", (engine.id, "vllm")] == 1
    assert 2**20 < found["turnout_engine_memory_bytes", (engine.id, "vllm")] < 2**30
    assert found["turnout_host_memory_total_bytes", ()] == psutil.virtual_memory().total
    assert 0 < found["turnout_host_memory_available_bytes", ()] < found["turnout_host_memory_total_bytes", ()]
    assert found["turnout_guard_state", (engine.id,)] == 0
    assert before <= found["turnout_reconciler_last_pass_timestamp_seconds", ()] <= time.time()


def test_a_champion_that_cannot_be_served_is_not_in_sync(yard: Yard) -> None:
    engine = yard.engine()
    yard.serve(yard.make(b"one"))
    metrics = ReconcilerMetrics(yard.home, Guard(yard.home))
    assert written(yard, metrics)["turnout_in_sync", (NAME,)] == 1
    unproven = yard.make(b"two", proven=False)
    yard.append(unproven)
    assert written(yard, metrics)["turnout_in_sync", (NAME,)] == 0
    # Proofs are read anew when there is one more.
    prove(yard.home, unproven, yard.base, yard.build)
    found = written(yard, metrics)
    assert found["turnout_in_sync", (NAME,)] == 1 and found["turnout_proof", (NAME, engine.id, "proven", "2")] == 1
    kill(engine.pid)
    found = written(yard, metrics)
    assert found["turnout_in_sync", (NAME,)] == 0 and found["turnout_engine_up", (engine.id, "vllm")] == 0


@pytest.mark.slow
def test_the_gateway_shows_them_with_its_own(yard: Yard) -> None:
    engine = yard.engine()
    yard.serve(yard.make(b"one"))
    url = yard.gateway()
    yard.ask()

    def shown() -> Samples:
        return parsed(httpx.get(f"{url}/metrics").raise_for_status().text)

    assert ("turnout_in_sync", (NAME,)) not in shown()
    start_reconciler(yard.home, follow_log=True)
    found = wait_until(lambda: (now := shown()).get(("turnout_in_sync", (NAME,))) and now, "a pass has ended", 30)
    assert found["turnout_requests_total", ("200", NAME, "incident-bot-v1")] == 1
    wait_until(lambda: ("turnout_engine_memory_bytes", (engine.id, "vllm")) in shown(), "the guard has looked")
    stamp = ("turnout_reconciler_last_pass_timestamp_seconds", ())
    wait_until(lambda: shown()[stamp] > found[stamp], "another pass has ended")
    # What a dead reconciler has left goes on being told, with the time that says how old it is.
    stop_reconciler(yard.home)
    assert shown()[stamp] == shown()[stamp] < time.time()
