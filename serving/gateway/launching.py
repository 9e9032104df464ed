"""Starts the gateway's workers, waits for them, stops them."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from serving.config import GatewayConfig
from serving.gateway.records import (
    list_workers,
    metrics_folder,
    pid_file,
    read_config,
    remove_record,
    worker_id,
    write_config,
)
from serving.logs import useful_tail
from serving.ports import require_free_port
from serving.processes import own_path, read_pid_file, spawn, terminate
from serving.reply import is_healthy
from turnout.errors import TurnoutError
from turnout.files import exclusive
from turnout.paths import Home

_BEYOND_DRAIN_S = 5.0
_PORT_PATIENCE_S = 1.0


def launch_workers(home: Home, config: GatewayConfig) -> None:
    """Start each of the `config.workers` that does not run, and return while they start; `wait_workers` does the rest.

    Raises:
        ResourceShort: something else listens on the gateway's port.
    """
    with exclusive(home.lock("gateways")) as lock:
        write_config(home, config)
        running = set(_running(home))
        if not any(worker.startswith(f"gateway-{config.port}-") for worker in running):
            where = {"what": "the gateway", "settings": "serving.gateway"}
            require_free_port(config.host, config.port, _PORT_PATIENCE_S, **where)
            shutil.rmtree(metrics_folder(home, config), ignore_errors=True)
        home.gateways.mkdir(parents=True, exist_ok=True)
        for index in range(config.workers):
            worker = worker_id(config, index)
            if worker not in running:
                remove_record(home, worker)
                files = {"pid_file": pid_file(home, worker), "log": log_file(home, worker)}
                spawn(_command(index), {"TURNOUT_HOME": str(home.root), **own_path()}, **files, lock=lock)


def wait_workers(home: Home, config: GatewayConfig, limit_s: float) -> None:
    """Wait until every worker listens and answers.

    Raises:
        TurnoutError: one ended, or `limit_s` seconds went by.
    """
    deadline = time.monotonic() + limit_s
    for index in range(config.workers):
        worker = worker_id(config, index)
        while not _answers(home, worker):
            # The shell that becomes the worker writes the pid file a moment after the launch.
            late = time.monotonic() > deadline
            if late or (pid_file(home, worker).exists() and worker not in _running(home)):
                what = f"was not ready after {limit_s:.0f} s" if late else "ended before it was ready"
                log = log_file(home, worker)
                tail = "\n".join(f"  {line}" for line in useful_tail(log))
                raise TurnoutError(
                    f"the gateway worker {worker} {what}. The end of its log ({log}):\n{tail or '  (it is empty)'}",
                    "Mend what the log names, then start it again: turnout up",
                )
            time.sleep(0.05)


def stop_workers(home: Home) -> None:
    """Let every worker finish its requests, for as long as the settings say, and end it."""
    if not home.gateways.exists():
        return
    with exclusive(home.lock("gateways")):
        patience_s = read_config(home).drain_s + _BEYOND_DRAIN_S
        deadline = time.monotonic() + patience_s
        running = _running(home)
        _tell_to_stop(running.values())
        for worker, (pid, started) in running.items():
            terminate(pid, started, max(0.0, deadline - time.monotonic()))
            remove_record(home, worker)
        for record in home.gateways.glob("gateway-*.json"):
            remove_record(home, record.stem)
        for folder in home.gateways.glob("metrics-*"):
            shutil.rmtree(folder, ignore_errors=True)


def log_file(home: Home, worker: str) -> Path:
    return home.logs / f"{worker}.log"


def _command(index: int) -> tuple[str, ...]:
    return (sys.executable, "-m", "serving.gateway", "--index", str(index))


def _running(home: Home) -> dict[str, tuple[int, float]]:
    """Worker id → pid and start time of the workers that run, or are still starting."""
    found = {file.stem: read_pid_file(file) for file in home.gateways.glob("gateway-*.pid")}
    return {worker: process for worker, process in sorted(found.items()) if process}


def _answers(home: Home, worker: str) -> bool:
    return any(each.id == worker and is_healthy(each.inner_url) for each in list_workers(home))


def _tell_to_stop(processes: Iterable[tuple[int, float]]) -> None:
    """All at once, so that they finish their requests side by side."""
    for pid, _ in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
