"""What benches conclude from their figures."""

import psutil
import pytest

from tasks.bench import batching, gateway
from tasks.bench.loads import Load
from tasks.bench.measuring import disturbed
from tasks.bench.preemption import Shortage
from tasks.bench.result import Result
from tests.tasks.bench.material import SUBJECT, batching_result, load_row


def test_the_gain_of_batching_is_told_against_the_goal() -> None:
    figures = batching.figures(batching_result())
    assert figures["50 users"]["ratio"] == pytest.approx(11.0)
    assert figures["50 users"]["p99_change_percent"] == pytest.approx(-90.8, abs=0.1)
    assert figures["goal"] == {"ratio": batching.GOAL, "users": 50, "met": True}


def test_a_goal_that_is_missed_is_told() -> None:
    result = batching_result()
    for row in result.rows:
        row["requests_per_s"] = 1.0
    assert batching.figures(result)["goal"]["met"] is False
    assert any("not met" in line for line in batching.compared(result.rows))


def test_the_gateways_cost_is_told_against_the_engine_alone() -> None:
    rows = [load_row("direct", 50, 40.0, 900.0), load_row("gateway", 50, 39.0, 920.0)]
    rows = [{**row, "ttft_p50_ms": ttft, "itl_p50_ms": 1.0} for row, ttft in zip(rows, (20.0, 23.0), strict=True)]
    found = gateway.figures(Result("gateway", SUBJECT, {}, rows))
    assert found == {"50 users": {"ratio": 0.975, "added_ttft_p50_ms": 3.0, "failed_percent": 0.0}}
    assert "0.975" in gateway.compared(rows)[0] and "+3.0 ms" in gateway.compared(rows)[0]


def test_a_scarce_cache_starts_more_than_it_can_finish() -> None:
    shortage = Shortage(requests=40, prompt=32, need=160, blocks=80, block_tokens=32)
    assert (shortage.fit, shortage.whole, shortage.started) == (2560, 16, 40)
    told = shortage.told("scarce cache", preempted=28)
    assert "hold 2,560 tokens" in told and "need 6,400" in told and "Preemptions seen: 28" in told


def test_a_cache_that_preempted_nothing_says_so() -> None:
    assert "None" in Shortage(40, 32, 160, 80, 32).told("scarce cache", preempted=0)


def test_an_ample_cache_holds_all() -> None:
    shortage = Shortage(requests=40, prompt=32, need=160, blocks=364, block_tokens=128)
    assert shortage.whole >= 40
    assert "All fit" in shortage.told("ample cache", preempted=0)


def test_other_processes_on_the_cores_are_told() -> None:
    cores = psutil.cpu_count() or 1
    load = Load(users=10, requests=10, input_tokens=32, output_tokens=32)
    busy = {"host_cpu_percent": 100.0, "engine_cpu_percent": 40.0}
    assert "At 10 users other processes took" in disturbed(busy, 0.1 * cores, cores, load)[0]
    assert disturbed({**busy, "engine_cpu_percent": 90.0}, 0.05 * cores, cores, load) == []
    assert disturbed(busy, 0.1 * cores, cores + 1, load) == []
