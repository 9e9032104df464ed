"""What a running pipeline tells whoever watches it, and what it remembers of its stages."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol


class Watcher(Protocol):
    """Somebody who wants to see progress: the terminal, or a log."""

    def begin(self, stage: str) -> None: ...

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """`done` of `total` steps where that is known; `text` is a few words."""

    def end(self, stage: str, seconds: float, cached: bool) -> None: ...


class Silent:
    """The watcher of runs that nobody watches."""

    def begin(self, stage: str) -> None:
        pass

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        pass

    def end(self, stage: str, seconds: float, cached: bool) -> None:
        pass


@dataclass
class StageRecord:
    seconds: float
    cached: bool


@dataclass
class Run:
    """One pipeline run: its watcher, each stage's seconds so far, and what a sweep tried before it."""

    watcher: Watcher = field(default_factory=Silent)
    stages: dict[str, StageRecord] = field(default_factory=dict)
    cached: bool = False
    sweep: list[dict[str, Any]] = field(default_factory=list)


_current: ContextVar[Run | None] = ContextVar("run", default=None)


def current() -> Run:
    """The run that this code is part of; a new silent one outside of any."""
    return _current.get() or Run()


@contextmanager
def watched(watcher: Watcher | None = None) -> Iterator[Run]:
    """Make a run current for the block; inside of a watched block, and with no watcher given, it stays that run."""
    if watcher is None and (outer := _current.get()) is not None:
        yield outer
        return
    run = Run(watcher or Silent())
    token = _current.set(run)
    try:
        yield run
    finally:
        _current.reset(token)


@contextmanager
def timed(stage: str) -> Iterator[Run]:
    """Time the block as `stage` of the current run."""
    run = current()
    run.cached = False
    run.watcher.begin(stage)
    started = time.monotonic()
    yield run
    record = StageRecord(round(time.monotonic() - started, 2), run.cached)
    run.stages[stage] = record
    run.watcher.end(stage, record.seconds, record.cached)


def update(text: str, done: float | None = None, total: float | None = None) -> None:
    """Tell the current run's watcher."""
    current().watcher.update(text, done, total)
