"""Brings the local stack up and takes it down: engines, gateway, reconciler."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

from serving.config import EngineKind, ServingConfig
from serving.engine_life import Progress, stop_engine, wait_ready
from serving.engines import launch_replica, remember
from serving.fit import REPLACE_IT, suits
from serving.following import BaseFinder
from serving.gateway.launching import launch_workers, stop_workers, wait_workers
from serving.gateway.records import Worker, config_file, list_workers
from serving.journal import read_overrides
from serving.kinds import kind_of
from serving.planning import target
from serving.reconciler_process import start_reconciler, stop_reconciler
from serving.reconciling import Outcome, Reconciler
from serving.records import Engine, list_engines, serving_engines
from serving.restore import least_shapes, shapes
from serving.routes import Routes, read_routes, routed
from turnout.errors import BadInput, EngineError, TurnoutError
from turnout.files import exclusive
from turnout.paths import Home
from turnout.references import Base

_GATEWAY_S = 60.0


@dataclass(frozen=True)
class Stack:
    """What `up` has brought up, the engines of the first kind first, and what the first pass found.

    `problems` say what went wrong with other kinds of engine than the first.
    """

    engines: tuple[Engine, ...]
    workers: tuple[Worker, ...]
    reconciler_pid: int
    outcome: Outcome
    problems: tuple[str, ...] = ()


def up(
    home: Home,
    config: ServingConfig,
    default_base: Callable[[], Base] | None = None,
    find_base: BaseFinder | None = None,
    progress: Progress | None = None,
    *,
    follow_log: bool = True,
) -> Stack:
    """Start this home's engines, load and probe what the log or the routes name, then start gateway and reconciler.

    What is up already stays as it is.

    Args:
        default_base: makes or finds what to serve where nothing was released yet.
        follow_log: without it the routes on disk say what is served.

    Raises:
        BadInput: there is nothing to serve, and no base.
        EngineError: an engine of the first kind cannot be started, or one that runs does not suit.
        ResourceShort: a port is taken.
    """
    with exclusive(home.lock("up")):
        reconciler = Reconciler(home, find_base, follow_log=follow_log)
        reconciler.follow()
        wanted = target(read_routes(home), reconciler.desired, read_overrides(home))
        bases = _bases(home, reconciler, wanted, default_base)
        engines, problems = _start_engines(home, config, wanted, bases, progress)
        outcome = reconciler.run_pass()
        launch_workers(home, config.gateway)
        pid = start_reconciler(home, follow_log=follow_log)
        wait_workers(home, config.gateway, _GATEWAY_S)
    return Stack(tuple(engines), tuple(list_workers(home)), pid, outcome, tuple(problems))


def down(home: Home) -> list[int]:
    """Stop everything of this home, the engines last, after the requests that they have; returns the pids that ran.

    An `up` that is under way fails by that, or ends; what it still started is stopped too.
    """
    stopped = _stop_all(home)
    if home.lock("up").exists():
        with exclusive(home.lock("up")):
            stopped += _stop_all(home)
    return stopped


def _stop_all(home: Home) -> list[int]:
    reconciler = stop_reconciler(home)
    workers = [worker.pid for worker in list_workers(home)]
    stop_workers(home)
    config_file(home).unlink(missing_ok=True)
    engines = list_engines(home)
    running = [engine.pid for engine in engines if engine.alive]
    for engine in engines:
        stop_engine(home, engine)
    return [*([reconciler] if reconciler else []), *workers, *running]


def _bases(home: Home, reconciler: Reconciler, wanted: Routes, default: Callable[[], Base] | None) -> list[Base]:
    """The bases that versions with traffic are on, else the one to serve where there are none."""
    routes = read_routes(home)
    known = {**(routes.bases if routes else {}), **reconciler.follower.bases}
    used = dict.fromkeys(each.version.base_sha256 for each in routed(wanted) if each.traffic)
    bases = [known[sha256] for sha256 in used if sha256 in known] or ([default()] if default else [])
    if not bases:
        raise BadInput("nothing was released yet, so there is nothing to serve", "Run the pipeline first: turnout run")
    return bases


def _start_engines(
    home: Home, config: ServingConfig, wanted: Routes, bases: list[Base], progress: Progress | None
) -> tuple[list[Engine], list[str]]:
    """Ready engines of each base and kind; those that are missing start side by side."""
    launched: list[Engine] = []
    ready: dict[str, Engine] = {}
    problems: list[str] = []
    for base, kind in product(bases, config.engines):
        with _told(kind, config, problems):
            launched += _launch_pool(home, config, wanted, base, kind)
    for engine in launched:
        with _told(engine.kind, config, problems):
            ready[engine.id] = wait_ready(home, engine, config.ready_timeout_s, progress)
    remember(home, config)
    return list(ready.values()), problems


@contextmanager
def _told(kind: str, config: ServingConfig, problems: list[str]) -> Iterator[None]:
    """The first kind of engine serves without the others, so what is wrong with those is only told."""
    try:
        yield
    except TurnoutError as error:
        if kind == config.engines[0]:
            raise
        problems.append(error.message)


def _launch_pool(home: Home, config: ServingConfig, wanted: Routes, base: Base, kind: EngineKind) -> list[Engine]:
    rank, targets = least_shapes(wanted, base, config)
    pool = serving_engines(home, base=base, kind=kind)
    for engine in pool:
        if reason := suits(engine, base, shapes(wanted, base.sha256)[0], engine.config, targets):
            raise EngineError(reason, REPLACE_IT)
    replicas = kind_of(kind).replicas(config)
    missing = range(replicas - len(pool))
    return pool + [
        launch_replica(home, base, config, rank, kind=kind, targets=targets, at_most=replicas) for _ in missing
    ]
