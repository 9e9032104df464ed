"""Real gateway workers in front of two stub engines, for all the tests here."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving.config import GatewayConfig
from serving.gateway.launching import launch_workers, stop_workers, wait_workers
from serving.gateway.records import Worker, list_workers
from serving.ports import free_port
from serving.routes import NameRoutes, Replica, RoutedVersion, Routes
from serving.tokens import admin_token
from turnout.files import write_json
from turnout.paths import Home
from turnout.references import Base, to_json

STUB = Path(__file__).with_name("stub_engine.py")
BASE = Base("hub/tiny", "tiny", "/bases/tiny", "base-sha", "", "", ())
SERVED = ("incidents-v1", "incidents-v2", "incidents-v3", "support-v1")
CHAT = "/v1/chat/completions"
HTTP = httpx.Client(timeout=20)


def wait_until(met: Callable[[], Any], what: str, limit_s: float = 10.0) -> Any:
    deadline = time.monotonic() + limit_s
    while not (value := met()):
        assert time.monotonic() < deadline, f"waited {limit_s} s: {what}"
        time.sleep(0.02)
    return value


@dataclass
class Engine:
    """A stub engine's process."""

    id: str
    port: int = field(default_factory=lambda: free_port("127.0.0.1"))
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *served: str) -> None:
        command = [sys.executable, str(STUB), str(self.port), BASE.name, *served]
        self.process = subprocess.Popen(command)
        wait_until(self.listens, "the stub engine listens")

    def listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait()

    def behave(self, **how: Any) -> None:
        HTTP.post(f"{self.url}/stub", json=how)

    def tells(self) -> dict[str, Any]:
        return dict(HTTP.get(f"{self.url}/stub").json())

    def requests(self) -> list[dict[str, Any]]:
        return list(self.tells()["seen"])


def versions(name: str, *numbers: int) -> dict[str, RoutedVersion]:
    return {
        str(number): RoutedVersion(f"{name}{number}", f"/adapters/{name}{number}", BASE.sha256) for number in numbers
    }


@dataclass
class Site:
    """A gateway with its engines."""

    home: Home
    config: GatewayConfig
    engines: list[Engine]
    generation: int = 0

    def routes(
        self,
        ready: tuple[str, ...] = SERVED,
        concurrent: int = 64,
        kinds: tuple[str, ...] = ("vllm", "vllm"),
        **incidents: Any,
    ) -> Routes:
        """Both names on both engines, of a new generation; keyword arguments go to the routes of `incidents`."""
        self.generation += 1
        on = {"champion": 2, "versions": versions("incidents", 1, 2, 3), "event": self.generation, **incidents}
        names = {"incidents": NameRoutes(**on), "support": NameRoutes(1, versions("support", 1), event=1)}
        replicas = [
            Replica(each.id, each.url, BASE.sha256, ready, concurrent, kind)
            for each, kind in zip(self.engines, kinds, strict=True)
        ]
        return Routes(self.generation, {BASE.sha256: BASE}, names, tuple(replicas))

    def push(self, routes: Routes | None = None) -> list[int]:
        """The generations that the workers acknowledge."""
        body = to_json(routes or self.routes())
        answers = [
            HTTP.put(f"{worker.inner_url}/inner/routes", json=body, headers=self.admin) for worker in self.workers
        ]
        return [answer.json()["generation"] for answer in answers]

    @property
    def workers(self) -> list[Worker]:
        return list_workers(self.home)

    @property
    def url(self) -> str:
        return f"http://{self.config.host}:{self.config.port}"

    @property
    def admin(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {admin_token(self.home)}"}

    def state(self, index: int = 0) -> dict[str, Any]:
        return dict(HTTP.get(f"{self.workers[index].inner_url}/inner/state", headers=self.admin).json())

    def busy(self) -> int:
        return sum(sum(served.values()) for served in self.state()["in_flight"].values())

    def ask(self, model: str = "incidents", headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}
        return HTTP.post(self.url + CHAT, json=body, headers=headers)

    def generate(self, headers: dict[str, str] | None = None, path: str = "/generate", **fields: Any) -> httpx.Response:
        body = {"prompt": "hi", "adapter": "incidents", **fields}
        return HTTP.post(self.url + path, json=body, headers=headers)

    def metric(self, series: str, /, **labels: str) -> float:
        """The sum of the samples of a metric that have these labels."""
        lines = HTTP.get(f"{self.url}/metrics").text.splitlines()
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        found = [line for line in lines if line.startswith(series) and all(each in line for each in wanted)]
        return sum(float(line.rpartition(" ")[2]) for line in found)

    def events(self, model: str = "incidents", **fields: Any) -> list[Any]:
        """The data of a stream's events, JSON read where it is some."""
        answer = self.ask(model, stream=True, **fields)
        assert answer.status_code == 200, answer.text
        texts = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
        return [text if text == "[DONE]" else json.loads(text) for text in texts]


def open_site(root: Path, engines: list[Engine], **settings: Any) -> Site:
    config = GatewayConfig(port=free_port("127.0.0.1"), **settings)
    site = Site(Home(root), config, engines)
    write_json(site.home.routes, to_json(site.routes()))
    launch_workers(site.home, config)
    wait_workers(site.home, config, 30)
    return site


@pytest.fixture(scope="session")
def engines() -> Iterator[list[Engine]]:
    started = [Engine("one"), Engine("two")]
    for engine in started:
        engine.start(*SERVED)
    yield started
    for engine in started:
        engine.kill()


@pytest.fixture(scope="session")
def running_site(engines: list[Engine], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = open_site(
        tmp_path_factory.mktemp("gateway"),
        engines,
        max_body_bytes=100_000,
        max_queued=2,
        request_timeout_s=1.5,
        idle_timeout_s=0.7,
        client_timeout_s=0.7,
        drain_s=5,
    )
    yield site
    stop_workers(site.home)


@pytest.fixture
def site(running_site: Site) -> Site:
    """The shared gateway with fresh routes and well engines."""
    for engine in running_site.engines:
        engine.behave(mode="ok", times=0, seconds=0.0, chunks=3, seen=[], broken_off=0, names=[BASE.name, *SERVED])
        engine.behave(metrics="")
    running_site.push()
    wait_until(lambda: not running_site.state()["ejected"], "every engine takes requests")
    return running_site
