"""`turnout bench`: what it refuses at once, that it leaves nothing behind, and all benches for real."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from serving.processes import is_alive
from serving.records import Engine, list_engines
from tasks.bench.catalogue import BENCHES
from tasks.bench.filing import write
from tests.conftest import Turnout
from tests.tasks.bench.material import SUBJECT, batching_result
from turnout.files import exclusive
from turnout.paths import Home

START_S = 300


@pytest.mark.parametrize("users", ["", "0", "ten", "1,,2", "-1", "1,1000000"])
def test_users_are_numbers(turnout: Turnout, users: str) -> None:
    outcome = turnout("bench", "load", "--json", f"--users={users}")
    assert outcome.code == 2
    assert "--users" in outcome.json["error"]["message"]


def test_a_folder_that_takes_no_files_is_told_at_once(turnout: Turnout) -> None:
    outcome = turnout("bench", "load", "--json", "--out", "/proc")
    assert (outcome.code, outcome.json["error"]["kind"]) == (1, "resource_short")
    assert outcome.json["error"]["message"].startswith("/proc cannot be used")


def test_a_refused_bench_leaves_no_folder(turnout: Turnout) -> None:
    assert turnout("bench", "load", "--json", "-c", "no-such-preset").code == 2
    assert not list((turnout.home.root / "bench").glob("2*"))


def test_an_unknown_preset_is_bad_input(turnout: Turnout) -> None:
    outcome = turnout("bench", "latency", "--json", "-c", "no-such-preset")
    assert (outcome.code, outcome.json["error"]["kind"]) == (2, "bad_preset")


def test_a_second_bench_in_a_home_is_refused(turnout: Turnout) -> None:
    lock = turnout.home.lock("bench")
    with exclusive(lock):
        lock.write_text(str(os.getpid()))
        outcome = turnout("bench", "load", "--json")
    assert outcome.code == 1
    assert f"another bench runs in this home (process {os.getpid()})" in outcome.json["error"]["message"]


def test_compare_prints_ratios(turnout: Turnout, tmp_path: Path) -> None:
    files = [write(batching_result(faster=faster), tmp_path / str(faster)).json for faster in (1.0, 2.0)]
    outcome = turnout("bench", "compare", *map(str, files), "--json")
    assert outcome.code == 0
    assert {row["requests_per_s"] for row in outcome.json["ratios"]} == {2.0}
    assert "requests/s" in turnout("bench", "compare", *map(str, files)).out


def test_compare_refuses_unlike_runs(turnout: Turnout, tmp_path: Path) -> None:
    other = batching_result(SUBJECT, input_tokens=128)
    files = [str(write(result, tmp_path / str(i)).json) for i, result in enumerate((batching_result(), other))]
    outcome = turnout("bench", "compare", *files, "--json")
    assert outcome.code == 2
    assert "input_tokens: 32 against 128" in outcome.json["error"]["message"]
    assert turnout("bench", "compare", *files, "--json", "--across", "settings").code == 0


def bench_engines(home: Home) -> list[Engine]:
    return [engine for root in (home.root / "bench" / "engines").glob("*") for engine in list_engines(Home(root))]


def wait_for_engine(home: Home) -> Engine:
    deadline = time.monotonic() + START_S
    while not (up := [engine for engine in bench_engines(home) if engine.alive]):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return up[0]


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_bench_stops_its_engines(turnout: Turnout, how: signal.Signals) -> None:
    with turnout.start("bench", "load", "--quick", "--json") as bench:
        engine = wait_for_engine(turnout.home)
        bench.send_signal(how)
        bench.communicate(timeout=120)
    assert bench.returncode == 130
    assert not is_alive(engine.pid, engine.create_time)
    assert bench_engines(turnout.home) == []


@pytest.mark.e2e
@pytest.mark.slow
def test_what_a_killed_bench_left_is_stopped_by_the_next(turnout: Turnout) -> None:
    with turnout.start("bench", "load", "--quick", "--json") as bench:
        engine = wait_for_engine(turnout.home)
        bench.kill()
        bench.communicate(timeout=120)
    assert is_alive(engine.pid, engine.create_time)

    with turnout.start("bench", "load", "--quick", "--json") as bench:
        deadline = time.monotonic() + START_S
        while is_alive(engine.pid, engine.create_time):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        bench.send_signal(signal.SIGINT)
        bench.communicate(timeout=120)
    assert bench_engines(turnout.home) == []


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.timeout(3600)
def test_all_benches_write_one_report(turnout: Turnout, tmp_path: Path) -> None:
    words = ("bench", "all", "--quick", "--users", "1,16", "--json", "--out", str(tmp_path))
    outcome = turnout(*words, timeout=3000)
    assert outcome.code == 0, outcome
    result = outcome.json
    assert set(result["results"]) == set(BENCHES) and result["failures"] == {}
    html = Path(result["report"]).read_text("utf-8")
    assert html.count("data:image/png;base64,") >= len(BENCHES) - 1
    assert bench_engines(turnout.home) == []

    read = {name: json.loads(Path(file).read_text("utf-8")) for name, file in result["results"].items()}
    assert all(each["rows"] and each["subject"]["versions"]["vllm"] for each in read.values())
    assert_plausible(result["figures"], read)


def assert_plausible(figures: dict[str, Any], read: dict[str, Any]) -> None:
    assert figures["batching"]["16 users"]["ratio"] > 1
    assert figures["preemption"]["scarce cache"]["preemptions"] > 0
    assert figures["preemption"]["ample cache"]["preemptions"] == 0
    assert all(row["failed_percent"] == 0 for name in ("latency", "load", "batching") for row in read[name]["rows"])
    assert all(row["failed_percent"] == 0 for row in read["gateway"]["rows"])
    assert {row["users"] for row in read["gateway"]["rows"] if row["configuration"] == "gateway"} == {1, 16}
    assert all(0 < row["ttft_p50_ms"] < 1000 * row["answer_p50_s"] for row in read["latency"]["rows"])
    assert all(row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"] for row in read["load"]["rows"])
    ladder = {
        row["configuration"]: row["size_bytes"] for row in read["ladder"]["rows"] if "llama.cpp" in row["configuration"]
    }
    sizes = [ladder[f"llama.cpp {step}"] for step in ("f16", "Q8_0", "Q5_K_M", "Q4_K_M", "Q4_0")]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == len(sizes)
    steps = {row["configuration"]: row for row in read["ladder"]["rows"]}
    assert steps["llama.cpp f16"]["equal_answers_percent"] == 100
    assert steps["llama.cpp Q4_0"]["loss_nats"] > steps["llama.cpp Q8_0"]["loss_nats"]
    assert any("the limit of 0.02" in note for note in read["ladder"]["notes"])
