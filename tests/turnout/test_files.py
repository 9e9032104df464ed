import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from turnout.files import exclusive, new_folder, read_json, write_atomically, write_json


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    write_json(file, {"generation": 1})
    with pytest.raises(TypeError):
        write_json(file, {"generation": object()})
    assert read_json(file) == {"generation": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_text_is_kept_as_it_is(tmp_path: Path) -> None:
    write_atomically(tmp_path / "new" / "answer.txt", "원인 🚂\n")
    assert (tmp_path / "new" / "answer.txt").read_text("utf-8") == "원인 🚂\n"


def test_a_missing_file_reads_as_none(tmp_path: Path) -> None:
    assert read_json(tmp_path / "none.json") is None


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), new_folder(tmp_path / "adapter") as folder:
        (folder / "half").write_text("x")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with new_folder(tmp_path / "adapter") as folder:
        (folder / "whole").write_text("x")
        assert not (tmp_path / "adapter").exists()
    assert (tmp_path / "adapter" / "whole").read_text() == "x"


def test_of_two_makers_of_one_folder_the_first_stays(tmp_path: Path) -> None:
    with new_folder(tmp_path / "base") as late:
        (late / "maker").write_text("late")
        with new_folder(tmp_path / "base") as early:
            (early / "maker").write_text("early")
    assert (tmp_path / "base" / "maker").read_text() == "early"
    assert [path.name for path in tmp_path.iterdir()] == ["base"]


def hold(lock: Path, held: Path) -> None:
    with exclusive(lock):
        held.touch()
        time.sleep(60)


def test_a_killed_holder_frees_its_lock(tmp_path: Path) -> None:
    lock, held = tmp_path / "one.lock", tmp_path / "held"
    holder = multiprocessing.get_context("fork").Process(target=hold, args=(lock, held))
    holder.start()
    deadline = time.monotonic() + 10
    while not held.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(BlockingIOError), exclusive(lock, wait=False):
        pass
    assert holder.pid
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    with exclusive(lock, wait=False):
        pass
