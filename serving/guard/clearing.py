"""Gives back memory of an engine that it can do without: adapters without traffic, and cached prefixes."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import aiohttp

from serving.client import EngineClient
from serving.gateways import in_flight, states
from serving.placement import loaded_adapters, unload
from serving.records import Engine
from serving.replicas import ready_on
from serving.room import close, wait_unused
from serving.routes import read_routes, routed
from turnout.errors import EngineError
from turnout.files import exclusive
from turnout.paths import Home

_TIMEOUT = aiohttp.ClientTimeout(total=10)


def idle_adapters(home: Home, engine: Engine) -> tuple[list[str], list[str]]:
    """The adapters on `engine` that get no traffic: those that no route names, and what a rollback would go to.

    One that a request uses is neither, nor is one that no route names while somebody who is no gateway asks the engine
    something: it may be being proven.

    Raises:
        EngineError: the engine does not answer.
    """
    loaded = loaded_adapters(engine)
    every = routed(read_routes(home))
    workers = list(states(home).values())
    unused = {name for name in loaded if not in_flight(workers, engine.id, name)}
    known = {each.served_name for each in every}
    spare = [each.served_name for each in reversed(every) if not each.traffic and each.served_name in unused]
    asked_by_others = asyncio.run(_load(engine)) > in_flight(workers, engine.id)
    return [] if asked_by_others else sorted(unused - known), spare


def clear(home: Home, engine: Engine, hold_back: Callable[[str], None], is_short: Callable[[], bool]) -> list[str]:
    """Unload what gets no traffic, the targets of rollbacks last, while `is_short`, and let the engine drop what it
    has cached; returns what was done, in words.

    Args:
        hold_back: is told the served names that are not to be loaded again.

    Raises:
        EngineError: the engine does not answer.
    """
    done = []
    unrouted, spare = idle_adapters(home, engine)
    gone = [name for name in unrouted if _put_off(home, engine, name, hold_back)]
    if gone:
        done.append(f"{', '.join(gone)} unloaded")
    if asyncio.run(_drop_caches(engine)):
        done.append("its cached prefixes dropped")
    gone = [name for name in spare if is_short() and _put_off(home, engine, name, hold_back)]
    if gone:
        asyncio.run(_drop_caches(engine))
        done.append(f"{', '.join(gone)} unloaded, so a rollback will have to load it first")
    return done


def _put_off(home: Home, engine: Engine, name: str, hold_back: Callable[[str], None]) -> bool:
    """Unload one adapter, unless it is in use by then; whoever wants it ready meanwhile gets it."""
    hold_back(name)
    with exclusive(home.lock("reconcile")):  # a pass writes what it saw before
        close(home, engine, [name])
    try:
        wait_unused(home, engine, name)
    except EngineError:
        return False
    with exclusive(home.lock("reconcile")):
        traffic = {each.served_name for each in routed(read_routes(home)) if each.traffic}
        if name in traffic or name in ready_on(home, engine):
            return False
        unload(engine, name)
    return True


async def _load(engine: Engine) -> int:
    async with EngineClient(engine.url, timeout_s=5) as client:
        return sum(await client.load())


async def _drop_caches(engine: Engine) -> bool:
    """False where the engine has no such call, or still computes with what it has cached."""
    with suppress(aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError):
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            session.post(f"{engine.url}/reset_prefix_cache") as answer,
        ):
            return answer.status == 200 and bool((await answer.json())["success"])
    return False
