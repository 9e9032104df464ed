"""Takes an engine that is about to reach a limit out of the traffic, and starts it again."""

import logging
import time
from collections.abc import Callable
from typing import Literal

from serving.engine_life import STOP_PATIENCE_S, stop_engine, wait_ready
from serving.engines import launch_prover
from serving.processes import terminate
from serving.records import Engine, running_engines, serving_engines, set_role
from serving.replicas import ready_on
from serving.resting import put_back, take_out, wait_unused
from serving.routes import find_replica, read_routes, routed
from turnout.errors import EngineError, TurnoutError
from turnout.files import exclusive
from turnout.paths import Home

_log = logging.getLogger("turnout.guard")
_LOADED_S = 120.0

Way = Literal["others serve", "a second engine takes over", "requests are refused"]
"""Who answers while an engine is started again."""


def others_serve(home: Home, engine: Engine) -> bool:
    """Whether other engines have all that gets traffic on this one."""
    routes = read_routes(home)
    traffic = {each.served_name for each in routed(routes) if each.traffic}
    alive = {each.id for each in serving_engines(home) if each.ready} - {engine.id}
    others = [
        each
        for each in (routes.replicas if routes else ())
        if each.id in alive and each.base_sha256 == engine.base.sha256
    ]
    ready = {name for each in others for name in each.ready}
    return bool(others) and set(ready_on(home, engine)) & traffic <= ready


def restart(home: Home, engine: Engine, way: Way) -> None:
    """Let the engine finish its requests, end it, and leave it to the passes to start it again.

    With "a second engine takes over" another one is started and loaded first, and stays; where that fails, requests are
    refused after all. They get 503 with Retry-After until the engine is back; what is in flight is answered, which an
    engine that the kernel kills does not do.

    Raises:
        BlockingIOError: a proof is being made on an engine of this home.
        EngineError: requests on it do not end; it serves on.
    """
    # Who holds this lock may let engines rest; without it the next pass would put this one back.
    with exclusive(home.lock("proving"), wait=False):
        if way == "a second engine takes over":
            try:
                _replace(home, engine)
            except TurnoutError as error:
                _log.warning("no second engine takes over from %s: %s", engine.id, error.message)
            else:
                return
        _restart_in_place(home, engine)


def _restart_in_place(home: Home, engine: Engine) -> None:
    was = find_replica(read_routes(home), engine.id)
    try:
        take_out(home, engine)
        wait_unused(home, engine, None)
        terminate(engine.pid, engine.create_time, STOP_PATIENCE_S)
        was = None
    finally:
        # A dead engine whose record says that it serves is started again, on its port.
        put_back(home, engine, was)


def _replace(home: Home, engine: Engine) -> None:
    new = wait_ready(home, launch_prover(home, engine), engine.config.ready_timeout_s)
    new = set_role(home, new, "serving")
    traffic = {each.served_name for each in routed(read_routes(home)) if each.traffic}
    needed = set(ready_on(home, engine)) & traffic
    if not _soon(lambda: find_replica(read_routes(home), new.id) is not None and needed <= set(ready_on(home, new))):
        stop_engine(home, new)
        raise EngineError(f"{new.id} did not get {', '.join(sorted(needed))} ready in {_LOADED_S:.0f} s")
    if any(each.id == engine.id and each.pid == engine.pid for each in running_engines(home)):
        with exclusive(home.lock("reconcile")):
            set_role(home, engine, "draining")


def _soon(met: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _LOADED_S
    while not met():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.25)
    return True
