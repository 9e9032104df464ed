"""Follows an engine once it is started: until it is ready, and until it is gone."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from serving.logs import last_line, useful_tail
from serving.processes import terminate
from serving.records import Engine, list_engines, remove_record, write_record
from serving.reply import fetch_version, is_healthy
from serving.vllm import SHUTDOWN_S
from turnout.errors import EngineNotReady
from turnout.files import exclusive
from turnout.paths import Home

Progress = Callable[[float, str], None]
"""Called with the seconds waited so far and the last line of the engine's log."""

STOP_PATIENCE_S = SHUTDOWN_S + 10
"""How long an engine that is told to stop may take to finish its requests and end."""
GIVE_UP_PATIENCE_S = 5


def wait_ready(home: Home, engine: Engine, limit_s: float, progress: Progress | None = None) -> Engine:
    """Wait until `engine` answers; returns it with its build.

    Raises:
        EngineNotReady: it ended, or `limit_s` seconds went by. Its record and its processes are gone then.
    """
    began = time.monotonic()
    while not (ready := settle(home, engine)):
        waited = time.monotonic() - began
        if not engine.alive:
            _give_up(home, engine, f"the engine ended after {waited:.0f} s, before it was ready")
        if waited > limit_s:
            _give_up(home, engine, f"the engine was not ready after {waited:.0f} s, the limit is {limit_s:.0f} s")
        if progress:
            progress(waited, last_line(Path(engine.log)))
        time.sleep(0.25)
    return ready


def settle(home: Home, engine: Engine) -> Engine | None:
    """The engine with its build noted, once it answers; None while it does not."""
    if not is_healthy(engine.url):
        return None
    if engine.ready:
        return engine
    engine = replace(engine, build=f"{engine.kind} {fetch_version(engine.url)} {engine.computes_on}")
    write_record(home, engine)
    return engine


def stop_engine(home: Home, engine: Engine) -> None:
    """Let the engine finish its requests, end it and everything that it started, and forget it."""
    with exclusive(home.lock("engines")):
        end_engine(home, engine, STOP_PATIENCE_S)


def _give_up(home: Home, engine: Engine, what: str) -> NoReturn:
    with exclusive(home.lock("engines")):
        end_engine(home, engine, GIVE_UP_PATIENCE_S)
    tail = "\n".join(f"  {line}" for line in useful_tail(Path(engine.log)))
    raise EngineNotReady(
        f"{what}. The end of its log ({engine.log}):\n{tail or '  (it is empty)'}",
        "Mend what the log names; a slow machine may need --set serving.ready_timeout_s=1200",
    )


def end_engine(home: Home, engine: Engine, patience_s: float) -> None:
    """End an engine and all that it started, and forget it. The caller holds the lock of the home's engines."""
    if engine.pid:
        terminate(engine.pid, engine.create_time, patience_s)
    current = next((other for other in list_engines(home) if other.id == engine.id), None)
    if current is None or (current.pid, current.create_time) == (engine.pid, engine.create_time):
        remove_record(home, engine.id)
