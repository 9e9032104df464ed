import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tasks.children import run_module, said
from turnout.errors import ResourceShort, ScoringFailed, TrainingFailed


def probe(folder: Path, do: str, **more: Any) -> Any:
    job = {"do": do, "folder": str(folder), **more}
    return run_module("tests.tasks.child_probe", job, folder, failure=ScoringFailed)


def test_a_result_comes_back_and_the_child_s_words_too(tmp_path: Path) -> None:
    assert probe(tmp_path, "answer", value=[1, "é"]) == {"answer": [1, "é"]}
    assert said(tmp_path) == "running"


def test_an_error_comes_back_as_itself(tmp_path: Path) -> None:
    with pytest.raises(TrainingFailed) as caught:
        probe(tmp_path, "fail")
    assert (caught.value.message, caught.value.next_step) == ("nothing was learned", "Raise the rate.")
    assert probe(tmp_path, "answer", value=1) == {"answer": 1}


@pytest.mark.parametrize(("do", "text"), [("fill the disk", "disk is full"), ("die", "signal 9")])
def test_a_shortage_is_named(tmp_path: Path, do: str, text: str) -> None:
    with pytest.raises(ResourceShort, match=text):
        probe(tmp_path, do)


def test_a_crash_shows_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(ScoringFailed, match="the end of the log shows this"):
        probe(tmp_path, "crash")
    with pytest.raises(ScoringFailed, match="ended with code 3"):
        probe(tmp_path, "exit")


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    code = (
        "from tests.tasks.test_children import probe; from pathlib import Path; "
        f"probe(Path({str(tmp_path)!r}), 'sleep')"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    try:
        wait_for(lambda: said(tmp_path) == "running")
        child = int((tmp_path / "pid").read_text())
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        wait_for(lambda: not alive(child), seconds=5)
    finally:
        parent.kill()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def wait_for(condition: Any, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
