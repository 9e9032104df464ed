"""Starting, adopting and ending engine processes; `listener.py` is the process."""

import multiprocessing
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from serving.config import ServingConfig
from serving.engine_life import stop_engine
from serving.engines import launch_engine, start_engine
from serving.fit import check_place, suits
from serving.processes import is_alive, read_pid_file
from serving.records import Engine, pid_file, record_file, running_engines, write_record
from serving.stack import down
from tests.serving.material import find_engine
from tests.serving.yard import kill
from turnout.errors import EngineError, EngineNotReady, ResourceShort
from turnout.files import read_state
from turnout.paths import Home
from turnout.references import Base

LISTENER = (sys.executable, str(Path(__file__).with_name("listener.py")), "--child")
BASE = Base("base", "base", "/nowhere", "a" * 64, "b" * 64, "c" * 64, (0,))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    yield home
    down(home)


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number


def settings(port: int, *flags: str, **more: Any) -> ServingConfig:
    return ServingConfig(port=port, command=(*LISTENER, *flags), **more)


def children(engine: Engine) -> list[psutil.Process]:
    return psutil.Process(engine.pid).children(recursive=True)


def alive(process: psutil.Process) -> bool:
    """psutil's own answer counts zombies, which wait for a parent to look at them."""
    return is_alive(process.pid, process.create_time()) if process.is_running() else False


def test_an_engine_starts_once_and_is_adopted(home: Home, port: int) -> None:
    seen: list[tuple[float, str]] = []
    first = start_engine(home, BASE, settings(port, "--delay", "1"), 16, lambda *at: seen.append(at))
    assert first.ready and first.build.startswith("vllm 0 ") and first.url == f"http://127.0.0.1:{port}"
    assert any(line.startswith("listener starts") for _, line in seen)
    assert start_engine(home, BASE, settings(port), 16) == first == find_engine(home)


def test_two_starters_at_once_start_one(home: Home, port: int) -> None:
    engines: list[Engine] = []
    start = [
        threading.Thread(target=lambda: engines.append(start_engine(home, BASE, settings(port, "--delay", "1"), 16)))
        for _ in range(2)
    ]
    for thread in start:
        thread.start()
    for thread in start:
        thread.join()
    assert len(engines) == 2 and engines[0].pid == engines[1].pid


def launch_and_hang(home: Home, port: int) -> None:
    launch_engine(home, BASE, settings(port, "--delay", "2"), 16)
    time.sleep(600)


def test_an_engine_outlives_its_killed_starter(home: Home, port: int) -> None:
    starter = multiprocessing.get_context("spawn").Process(target=launch_and_hang, args=(home, port))
    starter.start()
    while not record_file(home, f"vllm-{port}").exists():
        time.sleep(0.001)
    starter.kill()
    starter.join()
    # The record may lack the pid; whether the process came to be or not, there is one engine in the end.
    engine = start_engine(home, BASE, settings(port), 16)
    assert engine.ready and read_pid_file(pid_file(home, engine.id)) == (engine.pid, engine.create_time)
    leaders = [p.pid for p in psutil.process_iter(["cmdline"]) if str(port) in (p.info["cmdline"] or [])]
    assert leaders == [engine.pid]


def test_a_pid_of_somebody_else_is_never_ours(home: Home, port: int) -> None:
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        engine = start_engine(home, BASE, settings(port), 16)
        stop_engine(home, engine)
        record = {**engine.__dict__, "pid": stranger.pid, "create_time": engine.create_time - 60}
        write_record(home, Engine(**record))
        assert find_engine(home) is None
        assert down(home) == [] and stranger.poll() is None
        home.engines.joinpath("x.pid").write_text(str(stranger.pid))
        os.utime(home.engines / "x.pid", (1, 1))
        assert read_pid_file(home.engines / "x.pid") is None
    finally:
        stranger.kill()
        stranger.wait()


def test_stop_ends_the_children_too_and_is_idempotent(home: Home, port: int) -> None:
    engine = start_engine(home, BASE, settings(port), 16)
    family = children(engine)
    assert family
    assert down(home) == [engine.pid]
    assert not is_alive(engine.pid, engine.create_time) and not any(alive(child) for child in family)
    assert down(home) == [] and not record_file(home, engine.id).exists()


def test_children_of_a_killed_engine_are_cleared_before_the_next_start(home: Home, port: int) -> None:
    engine = start_engine(home, BASE, settings(port), 16)
    family = children(engine)
    kill(engine.pid)
    again = start_engine(home, BASE, settings(port), 16)
    assert again.pid != engine.pid and not any(alive(child) for child in family)


def test_an_engine_that_ends_shows_the_end_of_its_log(home: Home, port: int) -> None:
    with pytest.raises(EngineNotReady, match="the engine ended after") as failure:
        start_engine(home, BASE, settings(port, "--crash"), 16)
    assert "ValueError: the weights are broken" in failure.value.message
    assert "Traceback" not in failure.value.message and find_engine(home) is None


def test_a_command_that_is_not_there_says_so(home: Home, port: int) -> None:
    with pytest.raises(EngineNotReady, match=r"no-such-engine.*not found"):
        start_engine(home, BASE, ServingConfig(port=port, command=("no-such-engine",)), 16)


def test_a_slow_engine_is_given_up_and_leaves_nothing(home: Home, port: int) -> None:
    config = settings(port, "--delay", "600", ready_timeout_s=1.5)
    engine = launch_engine(home, BASE, config, 16)
    with pytest.raises(EngineNotReady, match=r"not ready after \d+ s, the limit is 2 s"):
        start_engine(home, BASE, config, 16)
    assert not is_alive(engine.pid, engine.create_time) and find_engine(home) is None


def test_a_taken_port_is_named_with_who_has_it(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(ResourceShort, match=rf"port {port} .* taken by process {os.getpid()} \(") as refusal:
            check_place(home, ServingConfig(port=port), 16)
        assert "--set serving.port=" in refusal.value.next_step
        with pytest.raises(ResourceShort, match=re.escape(f"port {port}")):
            start_engine(home, BASE, settings(port), 16)
    assert find_engine(home) is None


def test_a_rank_or_base_that_does_not_fit_is_refused(home: Home, port: int) -> None:
    engine = start_engine(home, BASE, settings(port), 9)
    assert engine.max_lora_rank == 16 and suits(engine, BASE, 16, settings(port)) is None
    check_place(home, settings(port, base="original"), 16, BASE)
    with pytest.raises(EngineError, match="up to rank 16, and this one has rank 17"):
        check_place(home, settings(port, base="original"), 17)
    check_place(home, settings(port, mode="restart"), 17)
    with pytest.raises(EngineError, match=r"serves base .*, not other") as refusal:
        start_engine(home, Base("other", "other", "/o", "d" * 64, "b", "c", (0,)), settings(port), 8)
    assert "turnout down" in refusal.value.next_step


def test_other_settings_than_the_engines_are_refused(home: Home, port: int) -> None:
    start_engine(home, BASE, settings(port, max_model_len=512), 8)
    original = {"base": "original", "max_model_len": 512}
    for config, base, reason in (
        (settings(port, base="original"), BASE, "takes 512 tokens a request, and serving.max_model_len=2048"),
        (settings(port, max_model_len=512), BASE, "a base as published, and serving.base=parity is wanted"),
        (settings(port, **original), replace(BASE, sha256="d" * 64, name="other"), "serves base .*, not other"),
        (settings(port, dtype="float16", **original), BASE, "float16 tp1 is wanted"),
    ):
        with pytest.raises(EngineError, match=reason):
            check_place(home, config, 8, base)
        check_place(home, config.model_copy(update={"mode": "restart"}), 8, base)


def test_a_successor_starts_beside_and_is_found_again(home: Home, port: int) -> None:
    live = start_engine(home, BASE, settings(port, max_model_len=512), 8)
    successor = start_engine(home, BASE, settings(port), 16, beside=True)
    assert successor.id != live.id and running_engines(home) == [live, successor] and find_engine(home) == live
    assert start_engine(home, BASE, settings(port), 16, beside=True) == successor
    kept = read_state(home.serving, ServingConfig)
    assert kept and kept.max_model_len == 512 and successor.config.port == port  # it has not taken over yet


@pytest.mark.parametrize("text", ["", "[" * 100_000, "null", '{"id": 1}', "\x00"])
def test_an_engine_with_a_broken_record_is_stopped_all_the_same(home: Home, port: int, text: str) -> None:
    engine = start_engine(home, BASE, settings(port), 16)
    record_file(home, engine.id).write_text(text)
    home.serving.write_text(text)
    assert read_state(home.serving, ServingConfig) is None
    with pytest.raises(EngineError, match="serves an unknown base"):
        start_engine(home, BASE, settings(port), 16)
    assert down(home) == [engine.pid]
    assert not is_alive(engine.pid, engine.create_time) and find_engine(home) is None
