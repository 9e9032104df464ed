# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""The deployments on a real Prefect server with a real process worker, made from a folder that is not the repo.

A registered champion has learnt the rows, so that nothing here is ever trained.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from registry.releases import read_log
from registry.store import connect
from registry.versions import set_candidate
from tests.flows.prefect_server import PATIENCE_S, PREFECT, PrefectServer, prefect_server
from tests.registry.conftest import migrated
from tests.tasks.learnt import Learner
from turnout.files import exclusive
from turnout.paths import Home

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

ENDED = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


@dataclass(frozen=True)
class Yard:
    """A server with all deployments and a worker, and the adapter `bot` whose champion has learnt its rows."""

    server: PrefectServer
    learner: Learner
    log: Path

    @property
    def parameters(self) -> dict[str, Any]:
        return {"preset": "tiny-cpu", "overrides": list(self.learner.args)}

    def deployment(self, name: str, flow: str = "") -> dict[str, Any]:
        found: dict[str, Any] = self.server.get(f"/deployments/name/{flow or name}/{name}")
        return found

    def run(self, name: str, /, **parameters: Any) -> str:
        """Ask for a run of a deployment; its id."""
        body = {"parameters": parameters, "state": {"type": "SCHEDULED"}}
        return str(self.server.post(f"/deployments/{self.deployment(name)['id']}/create_flow_run", body)["id"])

    def runs(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.server.post(
            "/flow_runs/filter", {"deployments": {"name": {"any_": [name]}}, "sort": "START_TIME_ASC"}
        )
        return found

    def wait(self, name: str, count: int = 1, states: frozenset[str] = frozenset(ENDED)) -> list[dict[str, Any]]:
        """The runs of a deployment, once `count` of them are in one of `states`."""
        deadline = time.monotonic() + 400
        while len(found := [run for run in self.runs(name) if run["state"]["type"] in states]) < count:
            assert time.monotonic() < deadline, self.log.read_text("utf-8")
            time.sleep(0.5)
        return found

    def said(self, run: dict[str, Any], words: str) -> str:
        """What a run logged, once `words` are in it: logs reach the server a little after the run has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            logs = self.server.post("/logs/filter", {"logs": {"flow_run_id": {"any_": [run["id"]]}}})
            text = "\n".join(each["message"] for each in logs)
            if words in text:
                return text
            assert time.monotonic() < deadline, text
            time.sleep(0.5)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    with prefect_server(tmp_path_factory.mktemp("prefect")) as running:
        running.deploy()
        # The real schedules would come in between; the tests make their own.
        for name in ("watch", "retrain"):
            deployment = running.get(f"/deployments/name/{name}/{name}")
            for schedule in deployment["schedules"]:
                running.prefect("deployment", "schedule", "pause", f"{name}/{name}", schedule["id"])
        yield running


@pytest.fixture
def yard(server: PrefectServer, migrated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    home = Home(tmp_path / "home")
    monkeypatch.setenv("TURNOUT_HOME", str(home.root))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home.root.mkdir()
    home.mlflow_database.write_bytes(migrated.read_bytes())
    learner = Learner.make(connect(home), home, tmp_path)
    learner.champion()
    env = {**server.env, "TURNOUT_HOME": str(home.root), "PREFECT_WORKER_QUERY_SECONDS": "1"}
    with open(tmp_path / "worker.log", "wb") as log:
        command = [PREFECT, "worker", "start", "--pool", "turnout"]
        worker = subprocess.Popen(command, env=env, cwd=tmp_path, stdout=log, stderr=log)
    try:
        yield Yard(server, learner, tmp_path / "worker.log")
    finally:
        worker.terminate()
        worker.wait(PATIENCE_S)
        for run in server.post("/flow_runs/filter", {}):
            server.delete(f"/flow_runs/{run['id']}")


def test_the_deployments_are_there_with_their_schedules_and_triggers(server: PrefectServer) -> None:
    listing = server.prefect("deployment", "ls")
    for name in ("pipeline", "watch", "retrain", "promote", "rollback"):
        assert f"{name}/{name}" in listing
    retrain = server.get("/deployments/name/retrain/retrain")
    assert [each["schedule"]["cron"] for each in retrain["schedules"]] == ["0 3 * * *"]
    assert retrain["concurrency_options"]["collision_strategy"] == "ENQUEUE"
    (automation,) = server.get(f"/automations/related-to/prefect.deployment.{retrain['id']}")
    assert set(automation["trigger"]["expect"]) == {"turnout.data.changed", "turnout.drift"}


def test_a_scheduled_run_says_that_nothing_is_new(yard: Yard) -> None:
    deployment = yard.deployment("retrain")
    schedule = {"schedule": {"interval": 20}, "parameters": yard.parameters}
    (made,) = yard.server.post(f"/deployments/{deployment['id']}/schedules", [schedule])
    try:
        run = yard.wait("retrain")[0]
    finally:
        yard.server.delete(f"/deployments/{deployment['id']}/schedules/{made['id']}")
    assert run["state"]["type"] == "COMPLETED", run
    assert run["auto_scheduled"]
    yard.said(run, "nothing trained: bot-v1 was trained on the same rows with the same settings")
    assert not list(yard.learner.home.stages.glob("train/*"))


def test_changed_data_is_told_once_and_starts_a_retraining(yard: Yard) -> None:
    # Other bytes, the same rows: a retraining is asked for, and finds nothing to learn.
    rows = yard.learner.rows
    rows.write_text(rows.read_text("utf-8").replace("\n", "\r\n"), "utf-8")
    yard.run("watch", **yard.parameters)
    (look,) = yard.wait("watch")
    assert look["state"]["type"] == "COMPLETED", look
    yard.said(look, "turnout.data.changed")
    (run,) = yard.wait("retrain")
    assert run["state"]["type"] == "COMPLETED", run
    assert run["parameters"]["overrides"] == list(yard.learner.args)
    assert "which bot-v1 learnt from" in run["parameters"]["because"]
    yard.said(run, ", but there are no new rows: bot-v1")
    yard.run("watch", **yard.parameters)
    yard.said(yard.wait("watch", 2)[1], "bot: nothing new")
    assert len(yard.runs("retrain")) == 1


def test_drift_without_new_rows_is_told_and_trains_nothing(yard: Yard, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh.jsonl"
    lines = [json.dumps({"instruction": f"Q{n}? " * 60, "output": "4"}) + "\n" for n in range(40)]
    fresh.write_text("".join(lines), "utf-8")
    settings = [*yard.learner.args, f"retrain.fresh={fresh}", "retrain.drift.loss=null"]
    yard.run("watch", preset="tiny-cpu", overrides=settings)
    (run,) = yard.wait("retrain")
    assert run["state"]["type"] == "COMPLETED", run
    text = yard.said(run, ", but there are no new rows: bot-v1")
    assert "drift: prompt lengths" in text
    found = yard.server.post("/artifacts/filter", {"artifacts": {"key": {"any_": ["bot-drift"]}}})
    assert [row["drifted"] for row in json.loads(found[0]["data"])] == [True, True]


def test_a_retraining_leaves_a_name_to_the_one_that_is_under_way(yard: Yard) -> None:
    with exclusive(yard.learner.home.lock("retrain-bot")):
        yard.run("retrain", **yard.parameters)
        (run,) = yard.wait("retrain")
    assert run["state"]["type"] == "COMPLETED", run
    yard.said(run, "a retraining of bot is under way")


def test_overlapping_triggers_train_one_after_the_other(yard: Yard) -> None:
    for _ in range(3):
        yard.run("retrain", **yard.parameters)
    runs = yard.wait("retrain", 3)
    assert [run["state"]["type"] for run in runs] == ["COMPLETED"] * 3
    spans = sorted((run["start_time"], run["end_time"]) for run in runs)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_a_release_waits_in_the_workers_process_for_a_person(yard: Yard) -> None:
    client = yard.learner.client
    yard.learner.version(b"two", "train.seed=1")
    set_candidate(client, "bot", 2)
    yard.run("promote", name="bot", approval=True)
    (waiting,) = yard.wait("promote", states=frozenset({"PAUSED"}))
    assert len(read_log(client, "bot")) == 1
    yard.server.resume(waiting["id"], {"approve": True, "who": "Ada", "comment": ""})
    (run,) = yard.wait("promote")
    assert run["state"]["type"] == "COMPLETED", run
    event = read_log(client, "bot")[-1]
    assert (event.kind, event.champion, event.actor) == ("promote", 2, "Ada")
