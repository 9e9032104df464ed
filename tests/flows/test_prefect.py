"""The deployments on a real Prefect server with a real worker, set up from a folder that is not the repo."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.ports import free_port
from tests.conftest import QUIET, PipelineRun

pytestmark = pytest.mark.slow

PREFECT = str(Path(sys.executable).with_name("prefect"))
PREFECT_YAML = Path(__file__).parents[2] / "prefect.yaml"


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Variables that name a running Prefect server of the test's own."""
    port = free_port("127.0.0.1")
    env = {**os.environ, **QUIET, "PREFECT_HOME": str(tmp_path / "prefect")}
    env["PREFECT_API_URL"] = f"http://127.0.0.1:{port}/api"
    command = [PREFECT, "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with open(tmp_path / "server.log", "wb") as log:
        server = subprocess.Popen(command, env=env, cwd=tmp_path, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 180
        while not answers(f"{env['PREFECT_API_URL']}/health"):
            assert server.poll() is None, (tmp_path / "server.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.5)
        yield env
    finally:
        server.terminate()
        server.wait(30)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False


def states(api_url: str) -> list[str]:
    """The states of the server's started flow runs; the schedule's future ones are left out."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{api_url}/flow_runs/filter", b"{}", headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        found = [run["state"]["type"] for run in json.load(response)]
    return [state for state in found if state != "SCHEDULED"]


def test_both_deployments_are_made_and_a_worker_runs_retrain(
    environment: dict[str, str], pipeline_run: PipelineRun, tmp_path: Path
) -> None:
    def prefect(*args: str, timeout: float = 300, **env: str) -> str:
        command = [PREFECT, "--no-prompt", *args]
        done = subprocess.run(
            command, env={**environment, **env}, cwd=tmp_path, capture_output=True, text=True, timeout=timeout
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    prefect("work-pool", "create", "turnout", "--type", "process")
    prefect("deploy", "--all", "--prefect-file", str(PREFECT_YAML))
    listing = prefect("deployment", "ls")
    assert "pipeline/pipeline" in listing
    assert "retrain/retrain" in listing
    overrides = [value for value in pipeline_run.args if "=" in value]
    prefect("deployment", "run", "retrain/retrain", "--params", f'{{"overrides": {overrides}}}'.replace("'", '"'))
    prefect("worker", "start", "--pool", "turnout", "--run-once", TURNOUT_HOME=str(pipeline_run.turnout.home.root))
    assert states(environment["PREFECT_API_URL"]) == ["COMPLETED"]
