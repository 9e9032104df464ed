"""Takes a replica out of the traffic for a proof, and puts it back."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from serving.gateways import in_flight, push, states
from serving.measure import Progress
from serving.priority import yielding
from serving.records import Engine, Role, list_engines, set_role
from serving.routes import Replica, Routes, find_replica, read_routes, update_routes
from turnout.errors import EngineError
from turnout.files import exclusive
from turnout.paths import Home


@contextmanager
def drained(home: Home, engine: Engine, progress: Progress | None) -> Iterator[Engine]:
    """The engine, `resting`: no gateway sends it anything, and what it had is answered.

    Raises:
        EngineError: its requests do not end.
    """
    was = find_replica(read_routes(home), engine.id)
    try:
        take_out(home, engine)
        wait_unused(home, engine, progress)
        with yielding(engine):
            yield replace(engine, role="resting")
    finally:
        put_back(home, engine, was)


def take_out(home: Home, engine: Engine) -> None:
    """Let no gateway send the engine anything more."""

    def change(routes: Routes | None) -> Routes | None:
        return routes and replace(routes, replicas=tuple(each for each in routes.replicas if each.id != engine.id))

    with exclusive(home.lock("reconcile")):  # a pass writes what it saw before
        _set_role(home, engine, "resting")
        routes = update_routes(home, change)
    if routes:
        push(home, routes)


def put_back(home: Home, engine: Engine, was: Replica | None) -> None:
    """Let the engine serve again; what it had ready it still has, and the reconciler loads what came since."""

    def change(routes: Routes | None) -> Routes | None:
        if routes is None or was is None or any(each.id == engine.id for each in routes.replicas):
            return routes
        return replace(routes, replicas=(*routes.replicas, was))

    with exclusive(home.lock("reconcile")):
        if not _set_role(home, engine, "serving"):
            return
        routes = update_routes(home, change)
    if routes:
        push(home, routes)


def _set_role(home: Home, engine: Engine, role: Role) -> bool:
    """False where the engine was stopped meanwhile, as by `turnout down`: it is not to come back by its record."""
    known = next((each for each in list_engines(home) if each.id == engine.id and each.pid == engine.pid), None)
    if known is not None:
        set_role(home, known, role)
    return known is not None


def wait_unused(home: Home, engine: Engine, progress: Progress | None) -> None:
    """Raises EngineError where the requests of an engine that was taken out do not end in the longest time of one."""
    began, limit_s = time.monotonic(), engine.config.gateway.request_timeout_s
    while left := in_flight(states(home).values(), engine.id):
        waited = time.monotonic() - began
        if waited > limit_s:
            raise EngineError(
                f"{engine.id} was taken out of the traffic, and {left} requests there did not end in {limit_s:.0f} s",
                "Run it again when they have.",
            )
        if progress:
            progress(f"{engine.id} finishes {left} requests", waited, None)
        time.sleep(0.1)
