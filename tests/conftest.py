"""What all tests share: homes of their own, the command, and one real pipeline run with its engine."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from serving.ports import free_port
from turnout.paths import Home

QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
ELSEWHERE = ("PREFECT_API_URL", "MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI", "TURNOUT_HOME")


@dataclass(frozen=True)
class Outcome:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on standard output; anything else there fails the test."""
        lines = self.out.splitlines()
        assert len(lines) == 1, self
        return json.loads(lines[0])


@dataclass(frozen=True)
class Turnout:
    """The command in a home of its own, as a process."""

    home: Home
    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    def __call__(self, *args: str, timeout: float = 600, **env: str) -> Outcome:
        with self.start(*args, **env) as process:
            out, err = process.communicate(timeout=timeout)
        return Outcome(process.returncode, out, err)

    def start(self, *args: str, **env: str) -> "subprocess.Popen[str]":
        inherited = {key: value for key, value in os.environ.items() if key not in ELSEWHERE}
        return subprocess.Popen(
            [sys.executable, "-c", "from flows.cli import main; main()", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**inherited, **QUIET, "TURNOUT_HOME": str(self.home.root), **self.env, **env},
        )


@pytest.fixture
def turnout(tmp_path: Path) -> Iterator[Turnout]:
    """The command in an empty home, whose engines are stopped at the end."""
    command = Turnout(Home(tmp_path / "home"), tmp_path)
    yield command
    if command.home.engines.exists():
        command("down")


# Enough to halve the loss; the whole preset is what `make demo` runs.
SHORT = (
    *("--set", "name=bot", "--set", "train.max_steps=24", "--set", "score.max_rows=10"),
    *("--set", "score.samples=2", "--set", "score.sample_tokens=16"),
    # So few steps teach some adapters to go on and on: how many differs with the machine's number format.
    *("--set", "gate.stop_rate=0", "--set", "score.answers=4", "--set", "score.answer_tokens=48"),
)


@dataclass(frozen=True)
class PipelineRun:
    """A home in which the pipeline ran once, for real, and whose engine is up."""

    turnout: Turnout
    args: tuple[str, ...]
    first: dict[str, Any]

    def again(self, *args: str) -> Outcome:
        return self.turnout(*self.args, *args)


@pytest.fixture(scope="session")
def pipeline_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PipelineRun]:
    folder = tmp_path_factory.mktemp("pipeline")
    turnout = Turnout(Home(folder / "home"), folder)
    ports = [f"{setting}.port={free_port('127.0.0.1')}" for setting in ("serving", "serving.gateway")]
    args = ("run", "--json", *SHORT, "--set", ports[0], "--set", ports[1])
    outcome = turnout(*args)
    try:
        assert outcome.code == 0, outcome
        yield PipelineRun(turnout, args, outcome.json)
    finally:
        turnout("down")
