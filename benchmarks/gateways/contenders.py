"""The gateways that are compared, each in front of the same stub; the foreign ones in environments of their own."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from serving.config import GatewayConfig
from serving.gateway.launching import launch_workers, stop_workers, wait_workers
from serving.gateway.records import list_workers
from serving.ports import free_port
from serving.routes import NameRoutes, Replica, RoutedVersion, Routes
from turnout.errors import ResourceShort, TurnoutError
from turnout.files import write_json
from turnout.paths import Home, cache
from turnout.references import Base, to_json

NAME, BASE = "demo", "base"
SERVED = f"{NAME}-v1"
HOST = "127.0.0.1"
PACKAGES = {"router": "vllm-router>=0.1.17", "litellm": "litellm[proxy]>=1.108"}
_PROGRAMS = {"router": "vllm-router", "litellm": "litellm"}
_START_S = 120.0
_STOP_S = 10.0


@dataclass(frozen=True)
class Contender:
    """One thing to send requests to: `model` is what its clients ask for there, `pids` the processes that answer."""

    name: str
    url: str
    model: str
    version: str
    pids: tuple[int, ...]

    def cpu_s(self) -> float:
        """Processor time that it took so far, in all its processes and threads."""
        times = [psutil.Process(pid).cpu_times() for pid in self.pids]
        return sum(each.user + each.system for each in times)


@contextmanager
def stub(folder: Path, *, chunks: int = 64, interval_ms: float = 2.0) -> Iterator[Contender]:
    """The upstream, in a process of its own."""
    port = free_port(HOST)
    program = Path(__file__).with_name("stub.py")
    options = ("--models", f"{SERVED},{BASE}", "--chunks", str(chunks), "--interval-ms", str(interval_ms))
    command = (sys.executable, str(program), "--port", str(port), *options)
    with _running(command, folder / "stub.log", f"http://{HOST}:{port}/health") as pid:
        yield Contender("direct", f"http://{HOST}:{port}", SERVED, f"uvloop {version('uvloop')}", (pid,))


@contextmanager
def turnout(folder: Path, upstream: str, *, workers: int = 1) -> Iterator[tuple[Contender, Home]]:
    """Turnout's gateway with one name whose champion the stub has loaded."""
    home = Home(folder / "home")
    sha256 = "0" * 64
    base = Base(BASE, BASE, str(folder), sha256, sha256, sha256, (0,))
    champion = NameRoutes(1, {"1": RoutedVersion(sha256, str(folder), sha256)}, event=1)
    replica = Replica("stub", upstream, sha256, (SERVED,), concurrent=256)
    write_json(home.routes, to_json(Routes(1, {sha256: base}, {NAME: champion}, (replica,))))
    config = GatewayConfig(host=HOST, port=free_port(HOST), workers=workers, drain_s=_STOP_S)
    try:
        launch_workers(home, config)
        wait_workers(home, config, _START_S)
        url = f"http://{HOST}:{config.port}"
        _wait_ready(f"{url}/ready", _START_S)
        pids = tuple(worker.pid for worker in list_workers(home))
        yield Contender("turnout", url, NAME, f"{version('turnout')}, {workers} worker(s)", pids), home
    finally:
        stop_workers(home)


@contextmanager
def router(folder: Path, upstream: str, policy: str | None = None) -> Iterator[Contender]:
    """The Rust vllm-router before one engine: as it comes (cache_aware, which reads the prompts), or with `policy`."""
    port, metrics = free_port(HOST), free_port(HOST)
    program, found = install("router")
    name = f"router-{policy}" if policy else "router"
    options = ("--worker-urls", upstream, *(("--policy", policy) if policy else ()))
    command = (str(program), "--host", HOST, "--port", str(port), "--prometheus-port", str(metrics), *options)
    with _running(command, folder / f"{name}.log", f"http://{HOST}:{port}/health") as pid:
        used = f"vllm-router {found}, policy {policy or 'as it comes'}"
        yield Contender(name, f"http://{HOST}:{port}", SERVED, used, (pid,))


@contextmanager
def litellm(folder: Path, upstream: str) -> Iterator[Contender]:
    """LiteLLM's proxy: one worker, no database, no keys."""
    port = free_port(HOST)
    program, found = install("litellm")
    model = {"model": f"openai/{SERVED}", "api_base": f"{upstream}/v1", "api_key": "none"}
    config = folder / "litellm.yaml"
    settings = {"dangerously_permit_weak_or_unset_master_key": True}
    entries = [{"model_name": NAME, "litellm_params": model}]
    config.write_text(json.dumps({"model_list": entries, "general_settings": settings}))  # JSON is YAML
    options = ("--config", str(config), "--num_workers", "1", "--telemetry", "False")
    command = (str(program), "--host", HOST, "--port", str(port), *options)
    environment = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
    with _running(command, folder / "litellm.log", f"http://{HOST}:{port}/health/liveliness", environment) as pid:
        yield Contender("litellm", f"http://{HOST}:{port}", NAME, f"litellm {found}", (pid,))


def install(name: str) -> tuple[Path, str]:
    """The program of `PACKAGES[name]` in an environment of its own under the cache, made once, and its version.

    Raises:
        ResourceShort: uv is missing, or it fails.
    """
    folder = cache() / "benchmarks" / name
    python = folder / "bin" / "python"
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        raise ResourceShort(f"uv, which makes the environment of {name}, is not here", "Install it: pip install uv")
    distribution = PACKAGES[name].partition(">=")[0].partition("[")[0]
    code = f"import importlib.metadata; print(importlib.metadata.version({distribution!r}))"
    try:
        if not python.exists():
            print(f"installing {PACKAGES[name]} into {folder}", file=sys.stderr)
            subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], check=True)
        # Costs nothing where it is there, and completes what was interrupted.
        subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), PACKAGES[name]], check=True)
        found = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    except subprocess.CalledProcessError as error:
        message = f"{PACKAGES[name]} could not be installed into {folder} (exit {error.returncode}, said above)"
        raise ResourceShort(message, f"Mend that, or leave it out: --skip {name}") from error
    return folder / "bin" / _PROGRAMS[name], found


@contextmanager
def _running(
    command: tuple[str, ...], log: Path, ready_url: str, environment: dict[str, str] | None = None
) -> Iterator[int]:
    """Yields the pid of `command`, started and answering."""
    with open(log, "wb") as output:
        child = subprocess.Popen(
            command, env={**os.environ, **(environment or {})}, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        _wait_ready(ready_url, _START_S, child, log)
        yield child.pid
    finally:
        child.terminate()
        try:
            child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _wait_ready(url: str, limit_s: float, child: Any = None, log: Path | None = None) -> None:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                answer.read()
                return
        except (OSError, urllib.error.URLError) as error:
            ended = child is not None and child.poll() is not None
            if ended or time.monotonic() > deadline:
                tail = log.read_text(errors="replace")[-2000:] if log else ""
                what = "its process ended" if ended else f"{limit_s:.0f} s are over"
                raise TurnoutError(
                    f"{url} does not answer, {what}: {error}\n{tail}", "Mend what the log says."
                ) from error
        time.sleep(0.2)
