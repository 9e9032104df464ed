"""How commands answer: one JSON object on standard output, or text for people; everything else on standard error."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from turnout.errors import TurnoutError

# Tables are cut to the width of a terminal; a file or a pipe has none.
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def answer(result: dict[str, Any], as_json: bool, show: Callable[[dict[str, Any]], None]) -> None:
    """Print `result` once, in the form that was asked for."""
    if as_json:
        sys.stdout.write(json.dumps(result, ensure_ascii=False) + "\n")
    else:
        show(result)


def fail(error: TurnoutError, as_json: bool) -> None:
    """Print a failure: what went wrong, then what to do next."""
    if as_json:
        failure = {"kind": error.kind, "message": error.message, "next_step": error.next_step}
        sys.stdout.write(json.dumps({"error": failure}, ensure_ascii=False) + "\n")
        return
    err.print(f"[bold red]Error:[/] {_plain(error.message)}")
    if error.next_step:
        err.print(f"[bold]Next:[/] {_plain(error.next_step)}")


def _plain(text: str) -> str:
    return text.replace("[", "\\[")


class TerminalWatcher:
    """Shows stages and their progress: bars on a terminal, a line now and then elsewhere."""

    SECONDS_BETWEEN_LINES = 15.0

    def __init__(self) -> None:
        self.stage = ""
        self._last_line = 0.0
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def begin(self, stage: str) -> None:
        self.stage = stage
        self._last_line = time.monotonic()
        if err.is_terminal:
            columns = (TextColumn("{task.fields[stage]:<9}"), BarColumn(), TextColumn("{task.description}"))
            self._bar = Progress(*columns, TimeElapsedColumn(), console=err, transient=True)
            self._task = self._bar.add_task("", stage=stage, total=None)
            self._bar.start()

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=_plain(text), completed=done, total=total)
        elif time.monotonic() - self._last_line >= self.SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            step = f"{done:.0f}/{total:.0f} " if done is not None and total else ""
            err.print(f"{self.stage:<9} {step}{_plain(text)}")

    def end(self, stage: str, seconds: float, cached: bool) -> None:
        self.close()
        err.print(f"{stage:<9} {'kept' if cached else 'done'} in {seconds:.1f} s")

    def close(self) -> None:
        """Take the bar off the terminal, also after a failure."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
