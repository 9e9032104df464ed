"""Starts and stops this home's reconciler."""

import sys
import time
from pathlib import Path

from serving.control import reconciler_url
from serving.logs import useful_tail
from serving.processes import own_path, read_pid_file, spawn, terminate
from turnout.errors import EngineNotReady
from turnout.files import exclusive
from turnout.paths import Home

_READY_S = 60.0
_STOP_S = 5.0


def start_reconciler(home: Home, *, follow_log: bool) -> int:
    """Start the reconciler, or find it running; returns its pid when it answers.

    Raises:
        EngineNotReady: it ended, or does not answer in time.
    """
    log = home.logs / "reconciler.log"
    with exclusive(home.lock("reconciler")) as lock:
        running = read_pid_file(_pid_file(home))
        if running is None:
            home.reconciler.unlink(missing_ok=True)
            command = [sys.executable, "-m", "serving.reconciler", *([] if follow_log else ["--routes-only"])]
            spawn(command, {"TURNOUT_HOME": str(home.root), **own_path()}, pid_file=_pid_file(home), log=log, lock=lock)
        deadline = time.monotonic() + _READY_S
        while reconciler_url(home) is None:
            running = read_pid_file(_pid_file(home))
            if time.monotonic() > deadline or (running is None and time.monotonic() > deadline - _READY_S + 2):
                tail = "\n".join(f"  {line}" for line in useful_tail(log))
                raise EngineNotReady(f"the reconciler did not start. The end of its log ({log}):\n{tail}")
            time.sleep(0.05)
        running = read_pid_file(_pid_file(home))
    return running[0] if running else 0


def stop_reconciler(home: Home) -> int | None:
    """End the reconciler; returns the pid of the one that ran."""
    if not _pid_file(home).exists():
        return None
    with exclusive(home.lock("reconciler")):
        running = read_pid_file(_pid_file(home))
        if running:
            terminate(*running, _STOP_S)
        home.reconciler.unlink(missing_ok=True)
        _pid_file(home).unlink(missing_ok=True)
    return running[0] if running else None


def _pid_file(home: Home) -> Path:
    return home.reconciler.with_suffix(".pid")
