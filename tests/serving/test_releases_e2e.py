"""Releases on a real engine behind the real gateway and reconciler, with processes killed."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from serving.placement import loaded_adapters, unload
from serving.processes import create_time
from serving.reconciler_process import stop_reconciler
from serving.releasing import promote
from serving.routes import read_routes
from tests.conftest import QUIET, PipelineRun
from tests.serving.station import NAME, Station, build_station

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
MESSAGES: Any = [{"role": "user", "content": "Analyse this error log: OOMKilled, exit code 137"}]


@pytest.fixture(scope="module")
def station(pipeline_run: PipelineRun, tmp_path_factory: pytest.TempPathFactory) -> Station:
    up = pipeline_run.turnout("up", "--json")
    assert up.code == 0, up
    built = build_station(pipeline_run, tmp_path_factory.mktemp("station"))
    promoted = built.turnout("promote", NAME, "1")
    assert promoted.code == 0 and promoted.json["to"] == 1, promoted
    return built


@pytest.fixture
def on_one(station: Station) -> Station:
    """The station with version 1 as the champion."""
    switch = promote(station.home, NAME, 1)
    assert switch.to == 1 and not switch.pending, switch
    return station


def ask(station: Station, model: str = NAME, max_tokens: int = 4) -> tuple[str, str]:
    """The versions that header and body name."""
    body = json.dumps({"model": model, "messages": MESSAGES, "max_tokens": max_tokens, "temperature": 0}).encode()
    request = urllib.request.Request(
        f"{station.worker.url}/v1/chat/completions", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.headers["x-turnout-version"], json.load(answer)["model"]


def eventually(check: Callable[[], bool], limit_s: float = 180) -> None:
    """Wait until `check` holds; an exception counts as not yet."""
    began, last = time.monotonic(), ""
    while True:
        try:
            if check():
                return
        except Exception as error:
            last = f"; the last look: {error}"
        assert time.monotonic() - began < limit_s, f"not within {limit_s} s{last}"
        time.sleep(0.2)


def test_promote_and_rollback_switch_both_witnesses(on_one: Station) -> None:
    assert ask(on_one) == ("rail-v1", "rail-v1")
    promoted = on_one.turnout("promote", NAME, "v2", "--expect", "1", "--reason", "better")
    assert promoted.code == 0 and (promoted.json["from"], promoted.json["to"]) == (1, 2), promoted
    assert ask(on_one) == ("rail-v2", "rail-v2") and ask(on_one, "rail-v1") == ("rail-v1", "rail-v1")
    back = on_one.turnout("rollback", NAME)
    assert back.code == 0 and (back.json["from"], back.json["to"], back.json["pending"]) == (2, 1, []), back
    assert ask(on_one) == ("rail-v1", "rail-v1")
    late = on_one.turnout("promote", NAME, "v2", "--expect", "2")
    assert late.code == 1 and late.json["error"]["kind"] == "registry_conflict"
    events = on_one.turnout("history", NAME).json["events"]
    assert [event["kind"] for event in events[-2:]] == ["promote", "rollback"] and events[-2]["reason"] == "better"


def test_the_openai_sdk_asks_by_name(on_one: Station) -> None:
    client = openai.OpenAI(base_url=f"{on_one.worker.url}/v1", api_key="none")
    raw = client.chat.completions.with_raw_response.create(model=NAME, messages=MESSAGES, max_tokens=3)
    assert raw.headers["x-turnout-version"] == raw.parse().model == "rail-v1"
    chunks = list(client.chat.completions.create(model=NAME, messages=MESSAGES, max_tokens=3, stream=True))
    assert {chunk.model for chunk in chunks} == {"rail-v1"} and chunks[-1].choices[0].finish_reason == "length"
    with pytest.raises(openai.NotFoundError, match="rail"):
        client.chat.completions.create(model="nobody", messages=MESSAGES)


def test_switches_under_load_drop_nothing(on_one: Station) -> None:
    command = [sys.executable, "benchmarks/switch_soak.py", NAME, "--switches", "12", "--clients", "8", "--json"]
    env = {**os.environ, **QUIET, "TURNOUT_HOME": str(on_one.home.root), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "--other", "2", "--warm-up", "1", "--pause", "0.8"],
        capture_output=True,
        text=True,
        env=env,
        cwd=ROOT,
        timeout=600,
    )
    assert done.returncode == 0, done
    result = json.loads(done.stdout)
    assert result["failed"] == 0 and result["pending"] == 0 and result["switches"] == 12
    assert result["streams"] >= 5 and set(result["by_version"]) == {"rail-v1", "rail-v2"}


def test_an_adapter_unloaded_by_hand_comes_back(on_one: Station) -> None:
    unload(on_one.engine, "rail-v1")
    eventually(lambda: ask(on_one)[0] == "rail-v1")
    eventually(lambda: "rail-v1" in loaded_adapters(on_one.engine))


def test_a_killed_gateway_comes_back_and_serves(on_one: Station) -> None:
    before = on_one.worker
    os.kill(before.pid, signal.SIGKILL)
    eventually(lambda: on_one.worker.pid != before.pid and ask(on_one)[0] == "rail-v1")


@pytest.mark.slow
def test_without_the_reconciler_the_gateway_serves_on(on_one: Station) -> None:
    stop_reconciler(on_one.home)
    assert ask(on_one)[0] == "rail-v1"
    status = on_one.turnout("status", NAME).json
    assert status["adapters"][0]["in_sync"] and any("reconciler" in problem for problem in status["problems"])
    # The command does then what the reconciler would.
    promoted = on_one.turnout("promote", NAME, "2")
    assert promoted.code == 0 and promoted.json["pending"] == [] and ask(on_one)[0] == "rail-v2"
    assert on_one.turnout("up").code == 0


def test_an_alias_moved_by_hand_becomes_an_event(on_one: Station) -> None:
    on_one.client.set_registered_model_alias(NAME, "champion", "2")
    eventually(lambda: ask(on_one)[0] == "rail-v2")
    events = on_one.turnout("history", NAME).json["events"]
    assert events[-1]["kind"] == "manual" and events[-1]["champion"] == 2


@pytest.mark.slow
def test_a_killed_engine_is_started_again_and_converges(on_one: Station) -> None:
    engine = on_one.engine
    os.killpg(engine.pid, signal.SIGKILL)

    def new_engine_is_ready() -> bool:
        return on_one.engine.pid != engine.pid and on_one.engine.ready

    eventually(new_engine_is_ready)
    eventually(lambda: ask(on_one)[0] == "rail-v1")
    eventually(lambda: on_one.turnout("status", NAME).json["in_sync"])
    routes = read_routes(on_one.home)
    assert routes and "rail-v1" in routes.replicas[0].ready


def test_down_leaves_nothing_and_can_be_repeated(on_one: Station) -> None:
    turnout, pids = on_one.run.turnout, on_one.turnout("up").json["pids"]
    assert set(on_one.turnout("down").json["stopped"]) == set(pids.values())
    # Where nobody reaps orphans, what has ended stays as a zombie.
    assert all(create_time(pid) is None for pid in pids.values())
    assert turnout("down", "--json").json == {"stopped": []}
    assert turnout("ask", NAME, "hello", "--json").code == 1
