"""Processes that outlive whoever starts them: started in a session of their own, known by pid and start time."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO

import psutil

# A wall clock that is set while the machine runs shifts what psutil calculates, a little.
_SAME_START_S = 2.0
# From a process's start to the pid file that it writes first of all.
_PID_FILE_DELAY_S = 30.0
_LAST_BREATH_S = 1.0

# The shell becomes the program, so its pid is the program's, and it is on disk before there is anything to lose:
# whoever is killed while it starts an engine leaves a pid file or no engine. Standard input holds the caller's
# lock until then, so the next caller who has the lock reads what this one wrote.
_WRITE_PID_AND_BECOME = 'echo $$ > "$0.new" && mv "$0.new" "$0" && exec "$@" < /dev/null'


def spawn(command: Iterable[str], environment: Mapping[str, str], *, pid_file: Path, log: Path, lock: IO[str]) -> int:
    """Start `command` with `environment` added to this process's, all its output in `log`; returns its pid."""
    pid_file.unlink(missing_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _WRITE_PID_AND_BECOME, str(pid_file), *command],
            env={**os.environ, **environment},
            stdin=lock,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process.pid


def own_path() -> dict[str, str]:
    """The environment in which a child imports this very Turnout, also from another folder."""
    root = Path(__file__).parents[1]
    if root.name == "site-packages":
        return {}
    inherited = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    return {"PYTHONPATH": os.pathsep.join([str(root), *inherited])}


def create_time(pid: int) -> float | None:
    """When the process `pid` started, in seconds since 1970; None where there is none, or only a zombie."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except (psutil.NoSuchProcess, ValueError, OverflowError):  # no pid is below 0, or that large
        return None


def is_alive(pid: int, started: float) -> bool:
    """Whether the process `pid` that started at `started` still runs; another one with its number does not count."""
    now = create_time(pid)
    return now is not None and abs(now - started) <= _SAME_START_S


def read_pid_file(pid_file: Path) -> tuple[int, float] | None:
    """The pid and start time of the process that wrote `pid_file`, if that still runs."""
    try:
        pid, written = int(pid_file.read_text()), pid_file.stat().st_mtime
    except (OSError, ValueError):
        return None
    started = create_time(pid)
    if started is None or not -_SAME_START_S <= written - started <= _PID_FILE_DELAY_S:
        return None
    return pid, started


def terminate(pid: int, started: float, patience_s: float) -> None:
    """End the session that `pid` leads: SIGTERM to the leader, SIGKILL to what is left of it after `patience_s`."""
    if is_alive(pid, started):
        os.kill(pid, signal.SIGTERM)
        _wait(lambda: not is_alive(pid, started), patience_s)
    elif create_time(pid) is not None:
        return  # The number is another process's now, which the system hands out only when the old session is gone.
    # Children of a leader that ended by itself are about to end too.
    if not is_alive(pid, started):
        _wait(lambda: not session_members(pid, started), _LAST_BREATH_S)
    for process in session_members(pid, started):
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    _wait(lambda: not session_members(pid, started), _LAST_BREATH_S)


def session_members(session: int, started: float) -> list[psutil.Process]:
    """The live processes of a session, none of them older than the session."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = os.getsid(process.pid) == session and process.create_time() >= started - _SAME_START_S
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            continue
    return found


def _wait(done: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not done() and time.monotonic() < deadline:
        time.sleep(0.1)
