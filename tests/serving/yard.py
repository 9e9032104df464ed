"""A home with a real registry, real gateway workers, and engines that only keep a list of adapters."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from mlflow import MlflowClient

from registry.releases import Event, Kind, Release, append, fold, read_log
from registry.runs import open_run
from registry.versions import Version, get_version, register, tag_version
from serving.config import ServingConfig
from serving.engine_life import wait_ready
from serving.engines import launch_replica, remember, start_engine
from serving.evidence import Evidence
from serving.gateway.launching import launch_workers, wait_workers
from serving.gateway.records import list_workers
from serving.gateways import states
from serving.placement import loaded_adapters, unload
from serving.ports import free_port
from serving.processes import create_time
from serving.proof import Proof
from serving.proofs import keep_proof
from serving.reconciling import Outcome, Reconciler
from serving.records import Engine
from serving.routes import Replica, Routes, read_routes
from serving.stack import down
from serving.tokens import admin_token
from tests.registry.material import BASE, NAME, make_adapter, make_manifest
from turnout.digests import adapter_sha256
from turnout.paths import Home
from turnout.references import Base

LISTENER = (sys.executable, str(Path(__file__).with_name("listener.py")))
CHAT = "/v1/chat/completions"
NO_ROWS = Evidence([], 1.9, tuple, 0.02).rows_sha256


def settings(**more: Any) -> ServingConfig:
    """Every port is a free one."""
    gateway = {"port": free_port("127.0.0.1"), "drain_s": 2}
    values = {"base": "original", "port": free_port("127.0.0.1"), "command": LISTENER, "gateway": gateway}
    return ServingConfig(**{**values, **more})


def known_base(root: Path, name: str = BASE.name, sha256: str = BASE.sha256) -> Base:
    """A base that is on this disk; without weights, so that any module may be adapted."""
    folder = root / name
    folder.mkdir(exist_ok=True)
    return replace(BASE, id=name, name=name, sha256=sha256, path=str(folder))


def new_version(client: MlflowClient, home: Home, weights: bytes, name: str = NAME, rank: int = 8) -> Version:
    adapter = make_adapter(home.root / "trained" / weights[:16].hex(), weights)
    if rank != adapter.rank:
        file = Path(adapter.path) / "adapter_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"r": rank}))
        adapter = replace(adapter, rank=rank, adapter_sha256=adapter_sha256(Path(adapter.path)))
    run_id = open_run(client, name, adapter.adapter_sha256, home=home)
    return register(client, name, adapter, make_manifest(adapter), run_id, home=home)


def prove(home: Home, version: Version, base: Base, build: str, **figures: Any) -> None:
    """Keep a proof as if this build had passed it; the quick probe then has nothing to repeat."""
    digest = version.manifest.adapter_sha256
    values: dict[str, Any] = dict.fromkeys(Proof.__dataclass_fields__, 0)
    values |= {"name": version.served_name, "adapter_sha256": digest, "base_sha256": base.sha256}
    values |= {"base_name": base.name, "build": build, "served_nats": 1.9, "trained_nats": 1.9, "difference": 0.001}
    values |= {"rows_sha256": NO_ROWS, "quick": (), "proven_at": "2026-01-01T00:00:00+00:00"}
    keep_proof(home, Proof(**values | figures), [])


def names(engine: Engine) -> list[str]:
    return sorted(loaded_adapters(engine))


def wait_until(met: Callable[[], Any], what: str, limit_s: float = 60.0) -> Any:
    deadline = time.monotonic() + limit_s
    while not (value := met()):
        assert time.monotonic() < deadline, f"waited {limit_s} s: {what}"
        time.sleep(0.05)
    return value


@dataclass
class Yard:
    """`build` is that of the engines, known when the first is up."""

    client: MlflowClient
    home: Home
    config: ServingConfig
    base: Base
    build: str = ""
    reconciler: Reconciler = field(init=False)

    def __post_init__(self) -> None:
        self.reconciler = Reconciler(self.home)

    def engine(self, rank: int = 8, base: Base | None = None, config: ServingConfig | None = None) -> Engine:
        engine = start_engine(self.home, base or self.base, config or self.config, rank)
        self.build = engine.build
        return engine

    def replicas(self, count: int) -> list[Engine]:
        launched = [launch_replica(self.home, self.base, self.config, 8) for _ in range(count)]
        ready = [wait_ready(self.home, engine, 30) for engine in launched]
        remember(self.home, self.config)
        self.build = ready[0].build
        return ready

    def make(
        self, weights: bytes, name: str = NAME, rank: int = 8, base: Base | None = None, proven: bool = True
    ) -> Version:
        """A version that was deployed: registered, proven on the engines' build, its base noted."""
        on = base or self.base
        version = new_version(self.client, self.home, weights, name, rank)
        tag_version(self.client, name, version.number, {"served_base": on.name, "served_base_sha256": on.sha256})
        if proven:
            prove(self.home, version, on, self.build)
        return get_version(self.client, name, version.number)

    def append(self, champion: Version | int, kind: Kind = "promote", **more: Any) -> Event:
        """An event of another machine, which tells nobody of it."""
        name, number = (NAME, champion) if isinstance(champion, int) else (champion.name, champion.number)
        return append(self.client, name, kind=kind, champion=number, parent=self.release(name).head, **more)

    def run(self) -> Outcome:
        return self.reconciler.run_pass()

    def serve(self, *champions: Version) -> Outcome:
        """Make each the champion of its name, one after the other, and bring the engines in line."""
        for version in champions:
            self.append(version)
        return self.run()

    def release(self, name: str = NAME) -> Release:
        return fold(read_log(self.client, name))

    def routes(self) -> Routes:
        routes = read_routes(self.home)
        assert routes
        return routes

    def replica(self, engine: Engine) -> Replica:
        return next(each for each in self.routes().replicas if each.id == engine.id)

    def gateway(self) -> str:
        """The gateway's URL, once its workers run."""
        launch_workers(self.home, self.config.gateway)
        wait_workers(self.home, self.config.gateway, 30)
        return list_workers(self.home)[0].url

    def ask(self, model: str = NAME, **headers: str) -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
        return httpx.post(f"{list_workers(self.home)[0].url}{CHAT}", json=body, headers=headers, timeout=30)

    @contextmanager
    def held_request(self, engine: Engine, model: str = NAME) -> Iterator[Future[httpx.Response]]:
        """A request that is in flight on the engine until the block ends, or the engine is told otherwise."""
        control(engine, holding=True)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(self.ask, model)
            try:
                wait_until(lambda: self.in_flight(engine.id), "the request is in flight")
                yield answer
            finally:
                # An engine that is being stopped takes no connection, and holds nothing.
                with suppress(httpx.TransportError):
                    control(engine, holding=False)

    def in_flight(self, engine_id: str) -> int:
        return sum(sum(state["in_flight"].get(engine_id, {}).values()) for state in states(self.home).values() if state)

    @property
    def admin(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {admin_token(self.home)}"}


def control(engine: Engine, **how: Any) -> int:
    """Change how an engine answers; returns the number of requests that it has answered."""
    return int(httpx.post(f"{engine.url}/control", json=how).raise_for_status().json()["answered"])


def unload_all(engine: Engine) -> None:
    """As somebody does who calls the engine by hand."""
    for name in names(engine):
        unload(engine, name)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: create_time(pid) is None, f"{pid} has ended")


@pytest.fixture
def yard(client: MlflowClient, home: Home, tmp_path: Path) -> Iterator[Yard]:
    """Nothing runs in it yet; whatever does at the end is stopped."""
    yield Yard(client, home, settings(), known_base(tmp_path))
    down(home)
