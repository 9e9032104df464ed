"""The lines of an engine's log that help."""

import re
from pathlib import Path

_TAIL_BYTES = 200_000
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_ORIGIN = re.compile(
    r"^\((?:APIServer|EngineCore|Worker|VllmWorker)\S* pid=\d+\) ?(?:(?:ERROR|INFO) \S+ \S+ \[[^\]]+\] ?)?"
)
# Stack frames and the list of routes push the cause out of sight.
_NOISE = re.compile(r'^\s*$|^\s+File "|^\s+[\^~]+\s*$|^ {4,}\S|Route: |^Traceback |^\s+warnings\.warn|[▄█▀]')


def useful_tail(log: Path, lines: int = 25) -> list[str]:
    """The last lines of `log` without stack frames, blank lines and colours."""
    useful = [line for line in map(_clean, _read_end(log)) if not _NOISE.search(line)]
    distinct = [line for index, line in enumerate(useful) if index == 0 or line != useful[index - 1]]
    return distinct[-lines:]


def last_line(log: Path) -> str:
    """The newest line of `log`, or nothing."""
    return next(iter(useful_tail(log, 1)), "")


def _read_end(log: Path) -> list[str]:
    try:
        with open(log, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").replace("\r", "\n").splitlines()
    except OSError:
        return []


def _clean(line: str) -> str:
    return _ORIGIN.sub("", _ANSI.sub("", line)).rstrip()[:400]
