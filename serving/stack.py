"""Brings the local stack up and takes it down: engines, gateway, reconciler."""

from collections.abc import Callable
from dataclasses import dataclass

from serving.config import ServingConfig
from serving.engines import Progress, launch_replica, remember, stop_engine, wait_ready
from serving.fit import REPLACE_IT, suits
from serving.following import BaseFinder
from serving.gateway.launching import launch_workers, stop_workers, wait_workers
from serving.gateway.records import Worker, config_file, list_workers
from serving.journal import read_overrides
from serving.planning import target
from serving.reconciler_process import start_reconciler, stop_reconciler
from serving.reconciling import Outcome, Reconciler
from serving.records import Engine, list_engines, serving_engines
from serving.restore import shapes
from serving.routes import Routes, read_routes, routed
from turnout.errors import BadInput, EngineError
from turnout.files import exclusive
from turnout.paths import Home
from turnout.references import Base

LEAST_RANK = 16
"""An engine that is started before any adapter is known takes ranks up to this one."""
_GATEWAY_S = 60.0


@dataclass(frozen=True)
class Stack:
    """What `up` has brought up, and what the first pass found."""

    engines: tuple[Engine, ...]
    workers: tuple[Worker, ...]
    reconciler_pid: int
    outcome: Outcome


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
        EngineError: an engine cannot be started, or one that runs does not suit.
        ResourceShort: a port is taken.
    """
    with exclusive(home.lock("up")):
        reconciler = Reconciler(home, find_base, follow_log=follow_log)
        reconciler.follow()
        wanted = target(read_routes(home), reconciler.desired, read_overrides(home))
        engines = _start_engines(home, config, wanted, _bases(home, reconciler, wanted, default_base), progress)
        outcome = reconciler.run_pass()
        launch_workers(home, config.gateway)
        pid = start_reconciler(home, follow_log=follow_log)
        wait_workers(home, config.gateway, _GATEWAY_S)
    return Stack(tuple(engines), tuple(list_workers(home)), pid, outcome)


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
) -> list[Engine]:
    """`config.replicas` ready engines of each base; those that are missing start side by side."""
    launched = []
    for base in bases:
        rank, targets = shapes(wanted, base.sha256)
        pool = [engine for engine in serving_engines(home) if engine.base.sha256 == base.sha256]
        for engine in pool:
            if reason := suits(engine, base, rank, engine.config, targets):
                raise EngineError(reason, REPLACE_IT)
        least = max(rank, LEAST_RANK if config.max_lora_rank is None else 1)
        launched += pool + [
            launch_replica(home, base, config, least, targets=targets, at_most=config.replicas)
            for _ in range(config.replicas - len(pool))
        ]
    ready = [wait_ready(home, engine, config.ready_timeout_s, progress) for engine in launched]
    remember(home, config)
    return list({engine.id: engine for engine in ready}.values())
