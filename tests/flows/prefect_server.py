"""A real Prefect server for tests, and the few calls to it that they need."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.ports import free_port
from tests.conftest import QUIET

PREFECT = str(Path(sys.executable).with_name("prefect"))
PREFECT_YAML = Path(__file__).parents[2] / "prefect.yaml"
PATIENCE_S = 180.0
"""Prefect on SQLite lets a statement wait 60 seconds for another's lock before it says 503, and more than one may."""


@dataclass(frozen=True)
class PrefectServer:
    """`env` makes a process use the server; `folder` is not the repository's."""

    url: str
    env: dict[str, str]
    folder: Path

    def prefect(self, *args: str) -> str:
        """Run Prefect's own command; what it wrote."""
        command = [PREFECT, "--no-prompt", *args]
        done = subprocess.run(command, env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def deploy(self) -> None:
        """Make a work pool and all deployments, as the README says."""
        self.prefect("work-pool", "create", "turnout", "--type", "process", "--overwrite")
        self.prefect("deploy", "--all", "--prefect-file", str(PREFECT_YAML))

    def get(self, path: str) -> Any:
        return self._ask(urllib.request.Request(f"{self.url}{path}"))

    def post(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        return self._ask(urllib.request.Request(f"{self.url}{path}", json.dumps(body).encode(), headers))

    def delete(self, path: str) -> None:
        self._ask(urllib.request.Request(f"{self.url}{path}", method="DELETE"))

    def resume(self, run_id: str, run_input: dict[str, Any]) -> dict[str, Any]:
        """Fill in the form of a paused run; the run is paused an instant before its form is there."""
        deadline = time.monotonic() + 120
        while True:
            answer: dict[str, Any] = self.post(f"/flow_runs/{run_id}/resume", {"run_input": run_input})
            if "schema not found" not in str(answer) or time.monotonic() > deadline:
                return answer
            time.sleep(0.2)

    def _ask(self, request: urllib.request.Request) -> Any:
        """The answer; as Prefect's own client does, ask again while the server's SQLite is busy (503)."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                    return json.loads(response.read() or "null")
            except urllib.error.HTTPError as error:
                if error.code != 503 or time.monotonic() > deadline:
                    raise
                time.sleep(0.5)


@contextmanager
def prefect_server(folder: Path) -> Iterator[PrefectServer]:
    """Start one with its database in `folder`, and stop it at the end."""
    port = free_port("127.0.0.1")
    url = f"http://127.0.0.1:{port}/api"
    env = {**os.environ, **QUIET, "PREFECT_HOME": str(folder / "prefect"), "PREFECT_API_URL": url}
    command = [PREFECT, "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(command, env=env, cwd=folder, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 180
        while not _answers(f"{url}/health"):
            assert process.poll() is None, (folder / "server.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.5)
        yield PrefectServer(url, env, folder)
    finally:
        process.terminate()
        process.wait(120)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False
