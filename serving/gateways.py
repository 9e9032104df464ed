"""Tells the gateway workers of this home where requests go, and asks them what is in flight."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import aiohttp

from serving.gateway.records import Worker, list_workers
from serving.routes import Routes, overtake
from serving.tokens import admin_token
from turnout.paths import Home
from turnout.references import to_json

_TIMEOUT = aiohttp.ClientTimeout(total=3.0)


@dataclass(frozen=True)
class Pushed:
    """The workers, by id, that follow the routes now, and those that did not answer."""

    acknowledged: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()


def push(home: Home, routes: Routes) -> Pushed:
    """Send `routes` to every worker; one with newer routes acknowledges too.

    Newer ones than are on disk come from a file that was lost or replaced: `routes` are numbered anew and sent again.
    """
    taken = _send(home, routes)
    newest = max((generation for generation in taken.values() if generation is not None), default=0)
    if newest > routes.generation and (renumbered := overtake(home, newest)):
        routes, taken = renumbered, _send(home, renumbered)
    follow = tuple(each for each, generation in taken.items() if (generation or 0) >= routes.generation)
    return Pushed(follow, tuple(each for each in taken if each not in follow))


def _send(home: Home, routes: Routes) -> dict[str, int | None]:
    """The generation that each worker follows then, by id; None where it does not answer."""
    body = to_json(routes)

    async def put(session: aiohttp.ClientSession, worker: Worker) -> int | None:
        async with session.put(f"{worker.inner_url}/inner/routes", json=body) as answer:
            return int((await answer.json())["generation"]) if answer.status == 200 else None

    return _ask_all(home, put)


def states(home: Home) -> dict[str, dict[str, Any] | None]:
    """What each worker says of itself, by id; None where it does not answer."""

    async def get(session: aiohttp.ClientSession, worker: Worker) -> dict[str, Any] | None:
        async with session.get(f"{worker.inner_url}/inner/state") as answer:
            return await answer.json() if answer.status == 200 else None

    return _ask_all(home, get)


def drain(home: Home, wanted: bool) -> Pushed:
    """Let every worker stop taking requests, or take them again."""

    async def post(session: aiohttp.ClientSession, worker: Worker) -> bool:
        async with session.post(f"{worker.inner_url}/inner/drain", json={"drain": wanted}) as answer:
            return answer.status == 200

    taken = _ask_all(home, post)
    return Pushed(tuple(each for each, ok in taken.items() if ok), tuple(each for each, ok in taken.items() if not ok))


def in_flight(every: Iterable[dict[str, Any] | None], replica: str, served_name: str | None = None) -> int:
    """Requests in flight on a replica, for one served name or all, by the workers' states.

    A worker that does not answer may have any: it counts as one.
    """
    total = 0
    for state in every:
        if state is None:
            total += 1
            continue
        there = state["in_flight"].get(replica, {})
        total += sum(there.values()) if served_name is None else there.get(served_name, 0)
    return total


def _ask_all(home: Home, ask: Callable[[aiohttp.ClientSession, Worker], Awaitable[Any]]) -> dict[str, Any]:
    """What `ask` gives for each worker, asked at once; None for one that does not answer."""
    workers = list_workers(home)
    if not workers:
        return {}

    async def one(session: aiohttp.ClientSession, worker: Worker) -> Any:
        try:
            return await ask(session, worker)
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError):
            return None

    async def every() -> list[Any]:
        headers = {"Authorization": f"Bearer {admin_token(home)}"}
        async with aiohttp.ClientSession(timeout=_TIMEOUT, headers=headers) as session:
            return await asyncio.gather(*(one(session, worker) for worker in workers))

    return dict(zip((worker.id for worker in workers), asyncio.run(every()), strict=True))
