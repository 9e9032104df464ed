"""Lets an engine that proves yield the cores to engines that serve on the same machine."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from serving.processes import session_members
from serving.records import Engine

NICENESS = 15
"""Beside engines that take all cores this leaves 3 % of them to the proof, and all that they leave free."""


@contextmanager
def yielding(engine: Engine) -> Iterator[None]:
    """Run the engine at a low priority meanwhile, if it computes on the CPU and may get the usual one back."""
    lowered = engine.computes_on.startswith("cpu") and _may_raise()
    if lowered:
        set_niceness(engine, NICENESS)
    try:
        yield
    finally:
        if lowered:
            set_niceness(engine)


def set_niceness(engine: Engine, niceness: int | None = None) -> None:
    """Set the niceness of every thread of an engine, as far as this process may; if left out, to its own."""
    if niceness is None:
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
    for process in session_members(engine.pid, engine.create_time):
        folder = Path(f"/proc/{process.pid}")
        # Where the kernel groups processes by session, niceness counts within one only, and beside it the group's does.
        with suppress(OSError):
            (folder / "autogroup").write_text(str(niceness))
        with suppress(OSError):
            for thread in (folder / "task").iterdir():
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, int(thread.name), niceness)


def _may_raise() -> bool:
    return os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_NICE)[0] >= 20
