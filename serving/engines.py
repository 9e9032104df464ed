"""Starts engines, where none runs that suits."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from serving.config import ServingConfig
from serving.engine_life import GIVE_UP_PATIENCE_S, Progress, end_engine, wait_ready
from serving.fit import REPLACE_IT, suits
from serving.kinds import kind_of
from serving.machine import this_machine
from serving.ports import free_port, require_free_port
from serving.processes import create_time, spawn, terminate
from serving.records import (
    UNKNOWN,
    Engine,
    Role,
    list_engines,
    pid_file,
    running_engines,
    write_record,
)
from turnout.errors import EngineError
from turnout.files import exclusive, read_state, write_json
from turnout.paths import Home
from turnout.references import Base, to_json


def start_engine(
    home: Home,
    base: Base,
    config: ServingConfig,
    max_lora_rank: int,
    progress: Progress | None = None,
    *,
    kind: str | None = None,
    targets: Iterable[str] = (),
    beside: bool = False,
) -> Engine:
    """A ready engine that serves `base` with adapters up to `max_lora_rank`: this home's running one, or a new one.

    Args:
        kind: the kind of engine; if left out, the first of `config.engines`.
        targets: modules that the adapters change.
        beside: start a successor of the running engine on another port, or go on with one that was left over. It
            is `joining`: without traffic.

    Raises:
        EngineError: the running engine serves something else.
        EngineNotReady: the engine ended, or took longer than `config.ready_timeout_s`; it is gone then.
        ResourceShort: the port is taken.
    """
    launched = launch_engine(home, base, config, max_lora_rank, kind=kind, targets=targets, beside=beside)
    engine = wait_ready(home, launched, config.ready_timeout_s, progress)
    if not launched.ready and engine.role == "serving":
        remember(home, engine.config)
    return engine


def remember(home: Home, config: ServingConfig) -> None:
    """Keep the settings of what serves now, so that `turnout up` starts it the same way."""
    write_json(home.serving, to_json(config))


def remembered(home: Home) -> ServingConfig | None:
    """The settings that the engines of this home were last started with; None before the first start."""
    return read_state(home.serving, ServingConfig)


def launch_engine(
    home: Home,
    base: Base,
    config: ServingConfig,
    max_lora_rank: int,
    *,
    kind: str | None = None,
    targets: Iterable[str] = (),
    beside: bool = False,
) -> Engine:
    """As `start_engine`, but returns while the engine is still starting; `wait_ready` does the rest."""
    start = _Start(
        base, config, kind or config.engines[0], max_lora_rank, tuple(targets), _preferred_port(config, kind)
    )
    with exclusive(home.lock("engines")) as lock:
        running = [engine for engine in running_engines(home) if engine.kind in (start.kind, UNKNOWN)]
        role: Role = "joining" if beside else "serving"
        for engine in sorted(running, key=lambda each: each.base.sha256 != base.sha256):
            reason = suits(engine, base, max_lora_rank, config, start.targets)
            if engine.role == role and reason is None:
                return engine
            if engine.role == role == "serving" and reason is not None:
                raise EngineError(reason, REPLACE_IT)
        return _launch(home, start, role, lock)


def launch_replica(
    home: Home,
    base: Base,
    config: ServingConfig,
    max_lora_rank: int,
    *,
    kind: str | None = None,
    targets: Iterable[str] = (),
    port: int | None = None,
    at_most: int | None = None,
) -> Engine:
    """Start one engine more for traffic, on `port` if it is free, unless `at_most` of its pool run already."""
    port = port or _preferred_port(config, kind)
    start = _Start(base, config, kind or config.engines[0], max_lora_rank, tuple(targets), port)
    with exclusive(home.lock("engines")) as lock:
        running = [each for each in running_engines(home) if each.pool == (base.sha256, start.kind)]
        pool = [each for each in running if each.role in ("serving", "resting")]
        if at_most is not None and len(pool) >= at_most:
            return pool[0]
        return _launch(home, start, "serving", lock)


def launch_prover(home: Home, like: Engine) -> Engine:
    """Start an engine as `like` was, on another port, for a proof alone; it may be starting still."""
    with exclusive(home.lock("engines")) as lock:
        return _launch(
            home, _Start(like.base, like.config, like.kind, like.max_lora_rank, like.targets), "proving", lock
        )


@dataclass(frozen=True)
class _Start:
    """An engine that is to be started: for adapters up to `rank` that change `targets`, on `port` if it is free, or on
    any port."""

    base: Base
    config: ServingConfig
    kind: str
    rank: int
    targets: tuple[str, ...]
    port: int | None = None


def _preferred_port(config: ServingConfig, kind: str | None) -> int | None:
    """`serving.port` is the first kind's; the others take what is free."""
    return config.port if kind in (None, config.engines[0]) else None


def _launch(home: Home, start: _Start, role: Role, lock: IO[str]) -> Engine:
    own_ports = {urlsplit(engine.url).port for engine in running_engines(home)}
    host, port = start.config.host, start.port
    if port is None or port in own_ports or role != "serving":
        port = free_port(host)
    dead = [engine for engine in list_engines(home) if not engine.alive]
    for engine in (each for each in dead if each.pid):
        terminate(engine.pid, engine.create_time, GIVE_UP_PATIENCE_S)
    # What is left of a killed engine may take some seconds to give its memory and its port back.
    require_free_port(host, port, patience_s=15.0 if dead else 0.0)
    for engine in dead:
        end_engine(home, engine, GIVE_UP_PATIENCE_S)
    engine, environment = _describe(home, start, port)
    engine = replace(engine, role=role)
    write_record(home, engine)
    files = {"pid_file": pid_file(home, engine.id), "log": Path(engine.log)}
    pid = spawn(engine.command, environment, **files, lock=lock)
    engine = replace(engine, pid=pid, create_time=create_time(pid) or time.time())
    write_record(home, engine)
    return engine


def _describe(home: Home, start: _Start, port: int) -> tuple[Engine, dict[str, str]]:
    """The record of an engine that is about to be started on `port`, and its environment."""
    base, config, kind = start.base, start.config, kind_of(start.kind)
    rank, machine = kind.rank_limit(max(start.rank, config.max_lora_rank or 1)), this_machine()
    launch = kind.build_launch(base, config.model_copy(update={"port": port}), rank, machine, start.targets)
    engine_id = f"{start.kind}-{port}"
    engine = Engine(
        id=engine_id,
        kind=start.kind,
        url=f"http://{_reachable(config.host)}:{port}",
        base=base,
        config=config,
        max_lora_rank=rank,
        targets=kind.targets(base, start.targets),
        computes_on=kind.computes_on(config, machine),
        command=launch.command,
        log=str(home.logs / f"engine-{engine_id}.log"),
    )
    return engine, launch.environment


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104
