import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from turnout.files import exclusive, new_folder, read_json, read_state, write_atomically, write_json


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


def make_and_die(path: Path) -> None:
    with new_folder(path) as folder:
        (folder / "half").write_text("x")
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_maker_left_is_removed_and_a_living_makers_folder_is_not(tmp_path: Path) -> None:
    maker = multiprocessing.get_context("fork").Process(target=make_and_die, args=(tmp_path / "base",))
    maker.start()
    maker.join()
    assert len(list(tmp_path.iterdir())) == 1
    with new_folder(tmp_path / "base.2"), new_folder(tmp_path / "base") as other, new_folder(tmp_path / "base"):
        assert other.is_dir()
        assert len(list(tmp_path.iterdir())) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "base.2"]


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff", b'{"a": "b"}', b"[1]", b"null"])
def test_damaged_state_reads_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state.json").write_bytes(content)
    assert read_state(tmp_path / "state.json", dict[str, int]) is None


def test_state_of_the_right_kind_is_read(tmp_path: Path) -> None:
    write_json(tmp_path / "state.json", {"a": 1})
    assert read_state(tmp_path / "state.json", dict[str, int]) == {"a": 1}
    assert read_state(tmp_path / "none.json", dict[str, int]) is None
    assert read_state(tmp_path, dict[str, int]) is None


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
