# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""The release flows on a real Prefect server: the deployments' forms, and a person who approves, refuses or is away."""

import os
import subprocess
import sys
import time
import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from registry.releases import append, fold, read_log
from registry.versions import set_candidate
from tests.flows.prefect_server import PATIENCE_S, PrefectServer, prefect_server
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME, register_one
from turnout.paths import Home

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

YES = {"approve": True, "who": " Ada ", "comment": "the canary was fine"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    with prefect_server(tmp_path_factory.mktemp("prefect")) as running:
        yield running


@dataclass(frozen=True)
class FlowRun:
    """A flow that runs in a process of its own, without a worker."""

    server: PrefectServer
    process: "subprocess.Popen[str]"
    tag: str

    def wait_for_pause(self) -> dict[str, Any]:
        deadline = time.monotonic() + 300
        while True:
            runs = self.server.post("/flow_runs/filter", {"flow_runs": {"tags": {"all_": [self.tag]}}})
            if runs and runs[0]["state"]["type"] == "PAUSED":
                found: dict[str, Any] = runs[0]
                return found
            assert self.process.poll() is None and time.monotonic() < deadline, self.process.communicate()
            time.sleep(0.5)

    def resume(self, run_input: dict[str, Any]) -> dict[str, Any]:
        return self.server.resume(self.wait_for_pause()["id"], run_input)

    def question(self) -> str:
        run, deadline = self.wait_for_pause(), time.monotonic() + PATIENCE_S
        key = run["state"]["state_details"]["run_input_keyset"]["description"]
        while True:
            try:
                return str(self.server.get(f"/flow_runs/{run['id']}/input/{key}"))
            except urllib.error.HTTPError:
                assert time.monotonic() < deadline
                time.sleep(0.2)

    def end(self) -> tuple[str, str]:
        """The run's last state, and what the process wrote."""
        out, err = self.process.communicate(timeout=400)
        runs = self.server.post("/flow_runs/filter", {"flow_runs": {"tags": {"all_": [self.tag]}}})
        return runs[0]["state"]["type"], out + err


@pytest.fixture
def released(client: MlflowClient, home: Home) -> MlflowClient:
    """A registry where v1 is the champion and v2 the candidate."""
    register_one(client, home, weights=b"one")
    register_one(client, home, weights=b"two")
    register_one(client, home, weights=b"three")
    append(client, NAME, kind="promote", champion=1, parent=0)
    set_candidate(client, NAME, 2)
    return client


def start(server: PrefectServer, home: Home, call: str, module: str = "flows.release", **env: str) -> FlowRun:
    tag = f"run-{time.monotonic_ns()}"
    code = f"from prefect import tags\nfrom {module} import *\nwith tags({tag!r}):\n    print('OUTCOME', {call})"
    path = os.pathsep.join(filter(None, [str(ROOT), server.env.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**server.env, "TURNOUT_HOME": str(home.root), "PYTHONPATH": path, **env},
        cwd=home.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return FlowRun(server, process, tag)


def test_a_person_can_refuse_and_nothing_is_switched(server: PrefectServer, home: Home, released: MlflowClient) -> None:
    run = start(server, home, f"promote({NAME!r}, approval=True, reason='better')")
    question = run.question()
    assert "v2" in question and "v1" in question and "better" in question
    # A form without who decides is not taken, and the run goes on waiting.
    assert run.resume({"approve": True, "who": " "})["status"] == "REJECT"
    assert run.resume({"approve": False, "who": "Ada", "comment": "not on a Friday"})["status"] == "ACCEPT"
    state, text = run.end()
    assert state == "FAILED"
    assert "Ada refused the promote" in text
    assert "not on a Friday" in text
    assert len(read_log(released, NAME)) == 1


def test_what_a_person_approves_happens_in_their_name(
    server: PrefectServer, home: Home, released: MlflowClient
) -> None:
    run = start(server, home, f"promote({NAME!r}, approval=True, reason='better')")
    assert run.resume(YES)["status"] == "ACCEPT"
    state, text = run.end()
    assert state == "COMPLETED", text
    event = read_log(released, NAME)[-1]
    assert (event.number, event.kind, event.champion) == (2, "promote", 2)
    assert (event.actor, event.reason) == ("Ada", "better; the canary was fine")
    found = server.post("/artifacts/filter", {"artifacts": {"key": {"any_": [f"{NAME}-release"]}}})
    assert "v1 → v2" in found[0]["data"]
    assert "approved by Ada" in found[0]["data"]


def test_no_answer_is_a_no(server: PrefectServer, home: Home, released: MlflowClient) -> None:
    state, text = start(server, home, f"rollback({NAME!r}, to=2, approval=True, approval_timeout_s=3)").end()
    assert state == "FAILED"
    assert "nobody approved the rollback" in text
    assert len(read_log(released, NAME)) == 1


def test_what_changed_while_a_person_thought_is_not_overwritten(
    server: PrefectServer, home: Home, released: MlflowClient
) -> None:
    run = start(server, home, f"promote({NAME!r}, approval=True)")
    run.wait_for_pause()
    append(released, NAME, kind="promote", champion=3, parent=1)
    run.resume(YES)
    state, text = run.end()
    assert state == "FAILED"
    assert "v3 now, not at v1" in text
    assert fold(read_log(released, NAME)).champion == 3


def test_a_canary_that_ended_meanwhile_does_not_turn_its_end_into_a_rollback(
    server: PrefectServer, home: Home, released: MlflowClient
) -> None:
    append(released, NAME, kind="promote", champion=3, parent=1)
    append(released, NAME, kind="canary", champion=3, weights={2: 5}, parent=2)
    run = start(server, home, f"rollback({NAME!r}, approval=True)")
    assert "End the canary or shadow **v2**" in run.question()
    append(released, NAME, kind="abort", champion=3, parent=3)
    run.resume(YES)
    state, text = run.end()
    assert state == "FAILED"
    assert "was released while the rollback waited" in text
    assert len(read_log(released, NAME)) == 4


def test_both_deployments_have_a_form(server: PrefectServer) -> None:
    server.deploy()
    for name in ("promote", "rollback"):
        deployment = server.get(f"/deployments/name/{name}/{name}")
        fields = deployment["parameter_openapi_schema"]["properties"]
        assert deployment["description"]
        assert deployment["parameter_openapi_schema"]["required"] == ["name"]
        assert all(field["description"] for field in fields.values()), fields
