"""Finds an engine without traffic to prove a version on: the serving one, a drained replica, or one started for it."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from serving.client import EngineClient
from serving.config import ProveOn
from serving.engine_life import stop_engine, wait_ready
from serving.engines import launch_prover
from serving.gateway.records import list_workers
from serving.gateways import in_flight, states
from serving.measure import Progress, wait_idle
from serving.priority import set_niceness, yielding
from serving.records import Engine, list_engines, serving_engines
from serving.resting import drained, put_back
from serving.routes import read_routes, routed
from turnout.errors import EngineError, EngineNotReady, EngineUnreachable, ResourceShort
from turnout.files import exclusive
from turnout.paths import Home

_IDLE_IN_S = 10.0
_LOOKS = 8
_LOOK_EVERY_S = 0.25


@contextmanager
def quiet_engine(
    home: Home,
    engine: Engine,
    prove_on: ProveOn | None = None,
    progress: Progress | None = None,
    *,
    wait: bool = True,
) -> Iterator[Engine]:
    """An engine of the same base, kind, build and settings as `engine` that no gateway sends anything to.

    That is `engine` itself, taken out of the traffic if there are others for it, or a short-lived one that is stopped
    when the block ends. One proof at a time is made in a home.

    Args:
        prove_on: as `serving.prove_on`; if left out, as the engine was started with.

    Raises:
        EngineError: there is none, and a second one cannot be started.
        BlockingIOError: another process proves, and `wait` is false.
    """
    with exclusive(home.lock("proving"), wait=wait):
        _clear(home)
        with _way(home, engine, prove_on or engine.config.prove_on)(home, engine, progress) as place:
            yield place


def clear_leftovers(home: Home) -> None:
    """Stop the proving engines of provers that were killed, and let the replicas rest no longer that they drained."""
    if any(engine.role in ("proving", "resting") for engine in list_engines(home)):
        try:
            with exclusive(home.lock("proving"), wait=False):
                _clear(home)
        except BlockingIOError:
            return  # somebody proves at this moment


def _clear(home: Home) -> None:
    for engine in list_engines(home):
        if engine.role == "proving":
            stop_engine(home, engine)
        elif engine.role == "resting":
            set_niceness(engine)
            put_back(home, engine, None)


_Way = Callable[[Home, Engine, Progress | None], AbstractContextManager[Engine]]


def _way(home: Home, engine: Engine, where: ProveOn) -> _Way:
    if engine.role != "serving":
        return _as_it_is
    if where == "separate":
        return _separate
    gateway = _may_get_traffic(home, engine)
    if gateway and _others(home, engine):
        return drained
    quiet = where == "serving" or (_stays_quiet(home, engine) if gateway else _gets_idle(engine))
    return _as_it_is if quiet else _separate


def _may_get_traffic(home: Home, engine: Engine) -> bool:
    """Whether a gateway runs, and the routes send it to this engine."""
    routes = read_routes(home)
    if not list_workers(home) or routes is None:
        return False
    named = any(each.version.base_sha256 == engine.base.sha256 and each.traffic for each in routed(routes))
    return named and any(each.id == engine.id and each.ready for each in routes.replicas)


def _others(home: Home, engine: Engine) -> bool:
    """Whether another replica of the pool has all that gets traffic here."""
    routes = read_routes(home)
    replicas = routes.replicas if routes else ()
    alive = {each.id for each in serving_engines(home) if each.ready} - {engine.id}
    taking = {each.served_name for each in routed(routes) if each.traffic}
    own = {name for each in replicas if each.id == engine.id for name in each.ready} & taking
    return any(own <= set(each.ready) for each in replicas if each.id in alive and each.pool == engine.pool)


def _gets_idle(engine: Engine) -> bool:
    """Whether the engine ends what it has in some seconds: what a killed run had asked of it, say."""

    async def get_idle() -> None:
        async with EngineClient(engine.url) as client:
            await wait_idle(client, _IDLE_IN_S)

    try:
        asyncio.run(get_idle())
    except EngineUnreachable:
        raise
    except EngineError:
        return False
    return True


def _stays_quiet(home: Home, engine: Engine) -> bool:
    """Whether no request is seen on the engine, nor on its way there, in several looks one after the other."""

    async def is_idle() -> bool:
        async with EngineClient(engine.url) as client:
            return await client.is_idle()

    for look in range(_LOOKS):
        if look:
            time.sleep(_LOOK_EVERY_S)
        if in_flight(states(home).values(), engine.id) or not asyncio.run(is_idle()):
            return False
    return True


def _as_it_is(home: Home, engine: Engine, progress: Progress | None) -> AbstractContextManager[Engine]:
    return nullcontext(engine)


@contextmanager
def _separate(home: Home, engine: Engine, progress: Progress | None) -> Iterator[Engine]:
    def report(seconds: float, line: str) -> None:
        if progress:
            progress(f"proving engine starts, {seconds:.0f} s", None, None)

    with _explained(engine):
        prover = launch_prover(home, engine)
    try:
        with yielding(prover):
            with _explained(engine):
                ready = wait_ready(home, prover, engine.config.ready_timeout_s, report)
            _require_same_build(engine, ready)
            yield ready
    finally:
        stop_engine(home, prover)


@contextmanager
def _explained(engine: Engine) -> Iterator[None]:
    try:
        yield
    except (EngineNotReady, ResourceShort) as error:
        raise EngineError(
            f"the version is to be proven on a second engine, beside {engine.id} and its traffic, and that one does "
            f"not start: {error.message}",
            "Give it room (a lower serving.gpu_memory_utilization or serving.kv_cache_gb), serve with "
            "serving.replicas=2, or prove on the serving engine while it is idle: --set serving.prove_on=serving",
        ) from error


def _require_same_build(engine: Engine, prover: Engine) -> None:
    if prover.build != engine.build:
        raise EngineError(
            f"{engine.id} runs {engine.build}, and an engine that starts now is {prover.build}: what that one proves "
            "says nothing of the serving one",
            "Restart the engine first: turnout down, then turnout up",
        )
