"""Real nginx and Prometheus, from the distribution's packages, on free ports with deploy/'s files."""

import math
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving.ports import free_port
from tests.deploy.reading import DEPLOY, rendered
from tests.serving.gateway.conftest import wait_until

_DEBIAN = {"nginx": "nginx-light", "prometheus": "prometheus", "promtool": "prometheus", "openssl": "openssl"}
_SBIN = "/usr/sbin:/usr/local/sbin"


def program(name: str) -> str:
    """Where the program is; the test is skipped where it is not."""
    found = shutil.which(name) or shutil.which(name, path=_SBIN)
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install {_DEBIAN[name]}")
    return found


def make_certificate(folder: Path) -> Path:
    """A self-made certificate for localhost, tls.crt and tls.key, in `folder`."""
    folder.mkdir()
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    command = [
        program("openssl"),
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    subprocess.run([*command, "-days", "2", *subject, *files], check=True, capture_output=True)
    return folder


@dataclass(frozen=True)
class Nginx:
    folder: Path
    http: int
    https: int
    process: "subprocess.Popen[bytes]"

    @property
    def url(self) -> str:
        return f"https://localhost:{self.https}"

    @property
    def certificate(self) -> str:
        return str(self.folder / "certificates/tls.crt")


def nginx_config(folder: Path, *servers: str) -> Path:
    """A whole nginx.conf around what the image would put into conf.d; whatever nginx writes lies in `folder`."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    lines = [f"{kind}_temp_path {folder}/{kind};" for kind in kinds]
    user = "user root;" if os.geteuid() == 0 else ""
    main = f"{user} daemon off; worker_processes 1; pid {folder}/pid; error_log stderr; events {{}}\n"
    path = folder / "nginx.conf"
    path.write_text(f"{main} http {{ access_log off; {' '.join(lines)}\n{chr(10).join(servers)}\n}}\n")
    return path


def front(folder: Path, gateway: str, http: int, https: int) -> str:
    """deploy/'s server in front of the gateway."""
    return rendered(
        DEPLOY / "nginx/templates/turnout.conf.template",
        TURNOUT_GATEWAY=gateway,
        TURNOUT_SERVER_NAME="localhost",
        TURNOUT_HTTP_PORT=str(http),
        TURNOUT_HTTPS_PORT=str(https),
        TURNOUT_CERTIFICATES=str(folder / "certificates"),
        TURNOUT_ACCESS_LOG=str(folder / "access.log"),
    )


def engine_metrics(port: int) -> str:
    """deploy/'s server beside the engines."""
    return rendered(DEPLOY / "nginx/templates/engine-metrics.conf.template", TURNOUT_METRICS_PORT=str(port))


@contextmanager
def running(command: list[str], ready: str, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """The process, from when `ready` answers until the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            return httpx.get(ready).status_code < 500
        except httpx.HTTPError:
            return False

    try:
        wait_until(answers, f"{command[0]} answers at {ready}", 30)
        yield process
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def nginx_in_front(folder: Path, gateway: str) -> Iterator[Nginx]:
    http, https = free_port("127.0.0.1"), free_port("127.0.0.1")
    make_certificate(folder / "certificates")
    config = nginx_config(folder, front(folder, gateway, http, https))
    command = [program("nginx"), "-c", str(config), "-p", str(folder)]
    with running(command, f"http://127.0.0.1:{http}/alive", folder / "error.log") as process:
        yield Nginx(folder, http, https, process)


@dataclass(frozen=True)
class Prometheus:
    url: str

    def ask(self, path: str, **params: str) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=params, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def samples(self, expression: str) -> list[float]:
        """The values of an instant query; one that is no number (0/0) is no data."""
        values = [float(sample["value"][1]) for sample in self.ask("query", query=expression)["result"]]
        return [value for value in values if not math.isnan(value)]

    def wait_for_targets(self) -> None:
        def all_up() -> bool:
            targets = self.ask("targets")["activeTargets"]
            return bool(targets) and all(target["health"] == "up" for target in targets)

        wait_until(all_up, "every target is scraped", 60)


@contextmanager
def prometheus_on(folder: Path, gateway: str, metrics: str, engine_port: int) -> Iterator[Prometheus]:
    """Prometheus with deploy/'s settings, asking more often, and other addresses."""
    text = (DEPLOY / "prometheus/prometheus.yml").read_text("utf-8")
    changes = {
        '"turnout:8080"': f'"{gateway}"',
        '"turnout:9400"': f'"{metrics}"',
        "/8000/metrics": f"/{engine_port}/metrics",
        "scrape_interval: 5s": "scrape_interval: 1s",
        "evaluation_interval: 15s": "evaluation_interval: 1s",
    }
    for before, after in changes.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    (folder / "prometheus.yml").write_text(text)
    shutil.copy(DEPLOY / "prometheus/alerts.yml", folder)
    port = free_port("127.0.0.1")
    options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command = [program("prometheus"), *options, f"--web.listen-address=127.0.0.1:{port}"]
    with running(command, f"http://127.0.0.1:{port}/-/ready", folder / "prometheus.log"):
        yield Prometheus(f"http://127.0.0.1:{port}")
