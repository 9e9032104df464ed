"""How commands answer: one JSON object on standard output, or text for people; everything else on standard error."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from turnout.errors import TurnoutError

# What is printed holds people's and other programs' words, in which brackets and colons are no markup.
_AS_IT_IS: Any = {"markup": False, "emoji": False, "highlight": False, "soft_wrap": True}
# Tables are cut to the width of a terminal; a file or a pipe has none.
out = Console(**_AS_IT_IS, width=None if sys.stdout.isatty() else 140)
err = Console(**_AS_IT_IS, stderr=True)


def answer(result: dict[str, Any], as_json: bool, show: Callable[[dict[str, Any]], None]) -> None:
    """Print `result` once, in the form that was asked for."""
    if as_json:
        _print_json(result)
    else:
        show(result)


def fail(error: TurnoutError, as_json: bool) -> None:
    """Print a failure: what went wrong, then what to do next."""
    if as_json:
        failure = {"kind": error.kind, "message": error.message, "next_step": error.next_step}
        _print_json({"error": failure})
        return
    err.print(Text("Error:", "bold red"), error.message)
    if error.next_step:
        err.print(Text("Next:", "bold"), error.next_step)


def _print_json(value: dict[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:  # another encoding's terminal, or bytes of a file name that are no characters
        text = json.dumps(value)
    sys.stdout.write(text + "\n")


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
            columns = (
                TextColumn("{task.fields[stage]:<9}"),
                BarColumn(),
                TextColumn("{task.description}", markup=False),
            )
            self._bar = Progress(*columns, TimeElapsedColumn(), console=err, transient=True)
            self._task = self._bar.add_task("", stage=stage, total=None)
            self._bar.start()

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=text, completed=done, total=total)
        elif time.monotonic() - self._last_line >= self.SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            step = f"{done:.0f}/{total:.0f} " if done is not None and total else ""
            err.print(f"{self.stage:<9} {step}{text}")

    def end(self, stage: str, seconds: float, cached: bool) -> None:
        self.close()
        err.print(f"{stage:<9} {'kept' if cached else 'done'} in {seconds:.1f} s")

    def close(self) -> None:
        """Take the bar off the terminal, also after a failure."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
