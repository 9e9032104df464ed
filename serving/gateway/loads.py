"""How many requests run and wait on each engine, by its own count: it has those of other gateways too."""

import asyncio
import time
from collections.abc import Iterable

import aiohttp

from serving.engine_metrics import read_counts
from serving.gateway.health import in_background
from serving.gateway.replicas import Counted, ReplicaState
from serving.gateway.state import State

_TIMEOUT = aiohttp.ClientTimeout(total=2.0)
_STALE_AFTER = 3
"""Polls without an answer, after which what an engine counted last says nothing of the present."""
# A request that leaves the choice of its engine open is worth as long a wait.
_REFRESH_S = 0.5


async def watch_loads(state: State) -> None:
    """Ask the engines that this worker sends requests to; those without any are not asked, and count as idle."""
    asked: dict[str, tuple[asyncio.Task[None], int]] = {}
    while True:
        now = time.monotonic()
        for replica in state.replicas.states.values():
            if is_stale(replica, now, _STALE_AFTER * state.config.load_every_s):
                forget(replica)
            task, turn = asked.get(replica.id, (None, 0))
            if (replica.total or replica.turn != turn) and (task is None or task.done()) and not replica.ejected:
                asked[replica.id] = (in_background(state, poll(state, replica)), replica.turn)
        await asyncio.sleep(state.config.load_every_s)


async def poll(state: State, replica: ReplicaState) -> None:
    """Learn what the engine counts, or where it does not say, rely on this worker's own count."""
    own = replica.total
    text = await fetch_metrics(state, replica)
    counts = read_counts(text) if text is not None else None
    if counts is None:
        forget(replica)
        return
    running, waiting = counts
    # Requests that began or ended meanwhile may be in its count or not: they are this worker's, not another's.
    replica.others = max(0, running + waiting - max(own, replica.total))
    replica.counted = Counted(running, waiting, time.monotonic())


async def refresh(state: State, replicas: Iterable[ReplicaState]) -> None:
    """Ask those of the engines whose counts are older than they would be under traffic, for at most half a second."""
    now = time.monotonic()
    wanted = [
        in_background(state, poll(state, each))
        for each in replicas
        if not each.ejected and (each.counted is None or is_stale(each, now, state.config.load_every_s))
    ]
    if wanted:
        await asyncio.wait(wanted, timeout=_REFRESH_S)


async def fetch_metrics(state: State, replica: ReplicaState) -> str | None:
    """The engine's own metrics; None where it does not answer."""
    try:
        async with state.session.get(f"{replica.url}/metrics", timeout=_TIMEOUT) as answer:
            return await answer.text() if answer.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None


def is_stale(replica: ReplicaState, now: float, limit_s: float) -> bool:
    return replica.counted is not None and now - replica.counted.at > limit_s


def forget(replica: ReplicaState) -> None:
    replica.others = 0
    replica.counted = None
