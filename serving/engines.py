"""Starts engines, finds those that run, stops them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from serving.config import ServingConfig
from serving.logs import last_line, useful_tail
from serving.machine import this_machine
from serving.ports import free_port, require_free_port
from serving.processes import create_time, spawn, terminate
from serving.records import Engine, find_engine, list_engines, pid_file, remove_record, write_record
from serving.reply import fetch_version, is_healthy
from serving.vllm import SHUTDOWN_S, build_launch, rank_limit, resolve_dtype
from turnout.errors import EngineError, EngineNotReady
from turnout.files import exclusive
from turnout.paths import Home
from turnout.references import Base

Progress = Callable[[float, str], None]
"""Called with the seconds waited so far and the last line of the engine's log."""

_STOP_PATIENCE_S = SHUTDOWN_S + 10
_GIVE_UP_PATIENCE_S = 5


def start_engine(
    home: Home,
    base: Base,
    config: ServingConfig,
    max_lora_rank: int,
    progress: Progress | None = None,
    *,
    adapters: Mapping[str, str] | None = None,
    beside: bool = False,
) -> Engine:
    """A ready engine that serves `base` with adapters up to `max_lora_rank`: this home's running one, or a new one.

    Args:
        beside: start a successor on another port where the running engine does not suit.
        adapters: served name → absolute folder of adapters that a new engine loads at its start.

    Raises:
        EngineError: the running engine serves something else.
        EngineNotReady: the engine ended, or took longer than `config.ready_timeout_s`; it is gone then.
        ResourceShort: the port is taken.
    """
    engine = launch_engine(home, base, config, max_lora_rank, adapters=adapters, beside=beside)
    return wait_ready(home, engine, config.ready_timeout_s, progress)


def launch_engine(
    home: Home,
    base: Base,
    config: ServingConfig,
    max_lora_rank: int,
    *,
    adapters: Mapping[str, str] | None = None,
    beside: bool = False,
) -> Engine:
    """As `start_engine`, but returns while the engine is still starting; `wait_ready` does the rest."""
    rank = max(max_lora_rank, config.max_lora_rank or 1)
    with exclusive(home.lock("engines")) as lock:
        running = [engine for engine in list_engines(home) if engine.alive]
        for engine in running:
            reason = suits(engine, base, max_lora_rank)
            if reason is None:
                return engine
            if not beside:
                raise EngineError(reason, "Stop it first (turnout down), or set serving.mode=restart.")
        dead = [engine for engine in list_engines(home) if not engine.alive]
        for engine in dead:
            _end(home, engine, _GIVE_UP_PATIENCE_S)
        if running:
            config = config.model_copy(update={"port": free_port(config.host)})
        else:
            # What is left of a killed engine may take some seconds to give its memory and its port back.
            require_free_port(config.host, config.port, patience_s=15.0 if dead else 0.0)
        machine = this_machine()
        launch = build_launch(base, config, rank, machine, adapters)
        engine = Engine(
            id=f"vllm-{config.port}",
            kind="vllm",
            url=f"http://{_reachable(config.host)}:{config.port}",
            base=base,
            max_lora_rank=rank_limit(rank),
            max_loras=config.max_loras,
            max_cpu_loras=config.max_cpu_loras,
            computes_on=f"{machine.device} {resolve_dtype(config, machine)} tp{config.tensor_parallel}",
            command=launch.command,
            log=str(home.logs / f"engine-vllm-{config.port}.log"),
        )
        write_record(home, engine)
        files = {"pid_file": pid_file(home, engine.id), "log": Path(engine.log)}
        pid = spawn(launch.command, launch.environment, **files, lock=lock)
        engine = replace(engine, pid=pid, create_time=create_time(pid) or time.time())
        write_record(home, engine)
        return engine


def wait_ready(home: Home, engine: Engine, limit_s: float, progress: Progress | None = None) -> Engine:
    """Wait until `engine` answers; returns it with its build.

    Raises:
        EngineNotReady: it ended, or `limit_s` seconds went by. Its record and its processes are gone then.
    """
    began = time.monotonic()
    while not is_healthy(engine.url):
        waited = time.monotonic() - began
        if not engine.alive:
            _give_up(home, engine, f"the engine ended after {waited:.0f} s, before it was ready")
        if waited > limit_s:
            _give_up(home, engine, f"the engine was not ready after {waited:.0f} s, the limit is {limit_s:.0f} s")
        if progress:
            progress(waited, last_line(Path(engine.log)))
        time.sleep(0.25)
    if engine.ready:
        return engine
    engine = replace(engine, build=f"{engine.kind} {fetch_version(engine.url)} {engine.computes_on}")
    write_record(home, engine)
    return engine


def stop_engine(home: Home, engine: Engine) -> None:
    """Let the engine finish its requests, end it and everything that it started, and forget it."""
    with exclusive(home.lock("engines")):
        _end(home, engine, _STOP_PATIENCE_S)


def suits(engine: Engine, base: Base, rank: int) -> str | None:
    """Why `engine` cannot serve adapters of `rank` on `base`; None where it can."""
    if engine.base.sha256 != base.sha256:
        return (
            f"the engine at {engine.url} serves {engine.base.name} ({engine.base.sha256[:12]}), "
            f"not {base.name} ({base.sha256[:12]})"
        )
    return _rank_reason(engine, rank)


def check_place(home: Home, config: ServingConfig, rank: int) -> None:
    """Check in milliseconds that an engine for adapters of `rank` runs here, or could be started.

    Raises:
        EngineError: the running one takes lower ranks only, and `serving.mode` is `hot`.
        ResourceShort: the port is taken by something else.
    """
    engine = find_engine(home)
    if engine is None:
        require_free_port(config.host, config.port)
    elif config.mode == "hot" and (reason := _rank_reason(engine, rank)):
        raise EngineError(reason, "Stop it first (turnout down), or set serving.mode=restart.")


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104


def _rank_reason(engine: Engine, rank: int) -> str | None:
    if rank <= engine.max_lora_rank:
        return None
    return f"the engine at {engine.url} takes adapters up to rank {engine.max_lora_rank}, and this one has rank {rank}"


def _give_up(home: Home, engine: Engine, what: str) -> NoReturn:
    with exclusive(home.lock("engines")):
        _end(home, engine, _GIVE_UP_PATIENCE_S)
    tail = "\n".join(f"  {line}" for line in useful_tail(Path(engine.log)))
    raise EngineNotReady(
        f"{what}. The end of its log ({engine.log}):\n{tail or '  (it is empty)'}",
        "Mend what the log names; a slow machine may need --set serving.ready_timeout_s=1200",
    )


def _end(home: Home, engine: Engine, patience_s: float) -> None:
    if engine.pid:
        terminate(engine.pid, engine.create_time, patience_s)
    current = next((other for other in list_engines(home) if other.id == engine.id), None)
    if current is None or (current.pid, current.create_time) == (engine.pid, engine.create_time):
        remove_record(home, engine.id)
