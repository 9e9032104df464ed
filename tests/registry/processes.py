"""The same work in several forked processes, which can wait for each other."""

import multiprocessing
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from threading import Barrier
from typing import TypeVar

Given = TypeVar("Given")
Got = TypeVar("Got")

# Forked, so that they need no second import of MLflow.
_fork = multiprocessing.get_context("fork")
_barrier: Barrier


def in_processes(work: Callable[[Given], Got], given: Iterable[Given]) -> list[Got]:
    """What `work` returns for each, in a process of its own; what it raises is raised."""
    each = list(given)
    barrier = _fork.Barrier(len(each))
    with ProcessPoolExecutor(len(each), _fork, initializer=_set_barrier, initargs=(barrier,)) as pool:
        return list(pool.map(work, each))


def meet() -> None:
    """Wait, within `work`, until all are here."""
    _barrier.wait(60)


def _set_barrier(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier
