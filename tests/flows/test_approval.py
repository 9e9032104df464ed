# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""`gate.approval: required`: what a person says of a version that the gate passed, or that nobody says anything."""

import json
import time

import pytest
from mlflow import MlflowClient

from registry.aliases import read_aliases
from registry.releases import read_log
from registry.store import connect
from serving.ports import free_port
from serving.routes import read_routes, routed
from tests.conftest import SHORT, Turnout, turnout
from tests.flows.prefect_server import PrefectServer
from tests.flows.test_release_flows import YES, FlowRun, released, server, start
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME
from turnout.paths import Home

pytestmark = pytest.mark.slow


def judged(server: PrefectServer, home: Home, args: str = "", **env: str) -> FlowRun:
    return start(server, home, f"judged({args})", "tests.flows.judging", **env)


def test_a_yes_is_a_rule_that_passed(server: PrefectServer, home: Home, released: MlflowClient) -> None:
    run = judged(server, home)
    question = run.question()
    assert "v2" in question and "v1" in question and "the gate passed it: fine" in question
    assert run.resume(YES)["status"] == "ACCEPT"
    state, text = run.end()
    assert state == "COMPLETED", text
    assert "'promote': True" in text and "'waits': ''" in text
    assert "Ada approved it. the canary was fine" in text


def test_a_no_refuses_the_version(server: PrefectServer, home: Home, released: MlflowClient) -> None:
    run = judged(server, home)
    run.resume({"approve": False, "who": "Ada", "comment": "not on a Friday"})
    state, text = run.end()
    assert state == "COMPLETED", text
    assert "{'verdict': {'passed': False" in text
    assert "Ada refused it. not on a Friday" in text
    assert len(read_log(released, NAME)) == 1


def test_without_an_answer_the_version_waits(server: PrefectServer, home: Home, released: MlflowClient) -> None:
    state, text = judged(server, home, "timeout_s=3").end()
    assert state == "FAILED", text  # Prefect's word for a run that nobody resumed
    assert "'promote': False" in text
    assert f"nobody approved {NAME}-v2 within 3 s; `turnout promote {NAME} v2` releases it" in text
    assert "{'verdict': {'passed': True" in text


def test_a_server_that_ends_with_the_command_asks_nobody(
    server: PrefectServer, home: Home, released: MlflowClient
) -> None:
    state, text = judged(server, home, TURNOUT_TEMPORARY_PREFECT="1").end()
    assert state == "COMPLETED", text
    assert "'promote': False" in text
    assert f"nobody could be asked; `turnout promote {NAME} v2` releases it" in text


@pytest.mark.parametrize("args", ["number=1", "approval='none'", "promote=False"])
def test_nobody_is_asked_without_need(server: PrefectServer, home: Home, released: MlflowClient, args: str) -> None:
    state, text = judged(server, home, args).end()
    assert state == "COMPLETED", text
    assert f"'promote': {args != 'promote=False'}, 'waits': ''" in text


@pytest.mark.e2e
def test_a_whole_run_gets_no_traffic_without_a_person(server: PrefectServer, turnout: Turnout) -> None:
    ports = [f"{setting}.port={free_port('127.0.0.1')}" for setting in ("serving", "serving.gateway")]
    needs = ["gate.approval=required", "train.max_steps=8", *ports]
    args = ("run", "--json", *SHORT, *(word for value in needs for word in ("--set", value)))
    alone = turnout(*args)
    assert alone.code == 0, alone
    assert alone.json["gate"]["passed"] and not alone.json["promoted"]
    assert any("`turnout promote bot v1` releases it" in warning for warning in alone.json["warnings"])
    client = connect(turnout.home)
    assert read_log(client, "bot") == [] and not list(routed(read_routes(turnout.home)))
    assert read_aliases(client, "bot") == {"candidate": 1}

    with turnout.start(*args, PREFECT_API_URL=server.url) as process:
        runs, deadline = [], time.monotonic() + 300
        while not runs:
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()
            paused = {"flow_runs": {"state": {"type": {"any_": ["PAUSED"]}}}, "flows": {"name": {"any_": ["pipeline"]}}}
            runs = server.post("/flow_runs/filter", paused)
            time.sleep(0.5)
        assert read_log(client, "bot") == []
        server.resume(runs[0]["id"], YES)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    result = json.loads(out)
    assert result["promoted"]
    assert [rule["text"] for rule in result["gate"]["rules"] if rule["name"] == "approval"] == [
        "Ada approved it. the canary was fine"
    ]
    assert [event.champion for event in read_log(client, "bot")] == [1]
