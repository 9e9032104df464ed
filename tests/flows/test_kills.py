"""`kill -9` in every stage, each time followed by the same command: one version, one release, nothing twice."""

import json
import os
import re
import signal
import time
from pathlib import Path

import psutil
import pytest

from registry.releases import read_log
from registry.store import connect
from serving.ports import free_port
from serving.records import list_engines
from tests.conftest import Turnout

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

STEPS = 12
SMALL = (
    *("--set", "name=bot", "--set", f"train.max_steps={STEPS}", "--set", "train.checkpoint_every_steps=2"),
    *("--set", "score.max_rows=6", "--set", "score.samples=1", "--set", "score.sample_tokens=8"),
    *("--set", "gate.stop_rate=null"),
)


def kill_after(turnout: Turnout, args: tuple[str, ...], stage: str, seconds: float) -> None:
    """Kill the command `seconds` after the end of `stage`; its children must end with it."""
    with turnout.start("run", "--json", *args) as process:
        assert process.stderr
        for text in process.stderr:
            if re.match(rf"{stage} +(done|kept) in", text):
                break
        else:
            raise AssertionError(f"it ended before the end of {stage}")
        time.sleep(seconds)
        children = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while left := [child for child in children if lives(child) and not belongs_to_engine(child, turnout)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def lives(process: psutil.Process) -> bool:
    """Where nobody reaps orphans, what has ended stays as a zombie."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def belongs_to_engine(process: psutil.Process, turnout: Turnout) -> bool:
    """Engines outlive the command that starts them."""
    engines = {engine.pid for engine in list_engines(turnout.home)}
    return process.pid in engines or any(parent.pid in engines for parent in process.parents())


def kill_in_training(turnout: Turnout, args: tuple[str, ...]) -> int:
    """Kill the command when the training has a whole checkpoint; returns the last step that it wrote."""
    with turnout.start("run", "--json", *args) as process:
        deadline = time.monotonic() + 300
        while not list(turnout.home.runs.glob("*/checkpoints/checkpoint-4")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        os.kill(process.pid, signal.SIGKILL)
    return len(curve(turnout))


def curve(turnout: Turnout) -> list[int]:
    (metrics,) = turnout.home.runs.glob("*/metrics.jsonl")
    return [json.loads(line)["step"] for line in metrics.read_text("utf-8").splitlines()]


def test_a_kill_in_each_stage_ends_in_one_version(turnout: Turnout) -> None:
    args = (*SMALL, "--set", f"serving.port={free_port('127.0.0.1')}")
    kill_after(turnout, args, "base", 1.0)
    reached = kill_in_training(turnout, args)
    assert 4 <= reached < STEPS
    kill_after(turnout, args, "train", 5.0)
    assert curve(turnout) == list(range(1, STEPS + 1))
    kill_after(turnout, args, "score", 0.05)
    kill_after(turnout, args, "register", 5.0)
    kill_after(turnout, args, "register", 40.0)
    kill_after(turnout, args, "deploy", 0.02)
    outcome = turnout("run", "--json", *args)
    assert outcome.code == 0, outcome
    assert outcome.json["version"] == 1
    assert outcome.json["promoted"] is True
    assert curve(turnout) == list(range(1, STEPS + 1))
    client = connect(turnout.home)
    assert [int(version.version) for version in client.search_model_versions("name = 'bot'")] == [1]
    assert [event.champion for event in read_log(client, "bot")] == [1]
    assert client.get_run(client.get_model_version("bot", "1").run_id).info.status == "FINISHED"
    assert len([engine for engine in list_engines(turnout.home) if engine.alive]) == 1
    assert not list(Path(turnout.home.root).rglob(".*.partial"))


def test_two_commands_at_once_make_one_version(turnout: Turnout) -> None:
    args = ("run", "--json", *SMALL, "--set", f"serving.port={free_port('127.0.0.1')}")
    with turnout.start(*args) as one, turnout.start(*args) as other:
        for process in (one, other):
            process.communicate(timeout=900)
    codes = sorted((one.returncode, other.returncode))
    assert codes == [0, 0]
    client = connect(turnout.home)
    assert [int(version.version) for version in client.search_model_versions("name = 'bot'")] == [1]
    assert [event.champion for event in read_log(client, "bot") if event.effective] == [1]
