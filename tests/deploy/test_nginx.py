"""Real nginx with a self-made certificate, in front of a real gateway."""

import http.client
import json
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving.config import GatewayConfig
from serving.gateway.launching import stop_workers
from serving.ports import free_port
from tests.deploy.programs import (
    Nginx,
    engine_metrics,
    front,
    make_certificate,
    nginx_config,
    nginx_in_front,
    program,
    running,
)
from tests.deploy.reading import DEPLOY, public_paths
from tests.serving.gateway.conftest import CHAT, SERVED, Engine, Site, open_site, wait_until

TEMPLATE = DEPLOY / "nginx/templates/turnout.conf.template"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    engines = [Engine("one"), Engine("two")]
    for engine in engines:
        engine.start(*SERVED)
    opened = open_site(tmp_path_factory.mktemp("gateway"), engines)
    yield opened
    stop_workers(opened.home)
    for engine in engines:
        engine.kill()


@pytest.fixture(scope="module")
def nginx(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    with nginx_in_front(tmp_path_factory.mktemp("nginx"), site.url.removeprefix("http://")) as front_end:
        yield front_end


@pytest.fixture
def client(nginx: Nginx) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=nginx.url, verify=ssl.create_default_context(cafile=nginx.certificate)) as made:
        yield made


def plainly(nginx: Nginx, path: str) -> tuple[int, Any]:
    """A GET of the path as it is written, which other clients would tidy up."""
    context = ssl.create_default_context(cafile=nginx.certificate)
    connection = http.client.HTTPSConnection("localhost", nginx.https, context=context, timeout=20)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def question(**more: Any) -> dict[str, Any]:
    return {"model": "incidents", "messages": [{"role": "user", "content": "hi"}], **more}


def test_nginx_takes_the_files(tmp_path: Path) -> None:
    make_certificate(tmp_path / "certificates")
    config = nginx_config(tmp_path, front(tmp_path, "127.0.0.1:1", 8080, 8443), engine_metrics(9400))
    command = [program("nginx"), "-t", "-c", str(config), "-p", str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 0 and "[warn]" not in told.stderr, told.stderr


def test_limits_are_the_gateways() -> None:
    text, config = TEMPLATE.read_text("utf-8"), GatewayConfig()
    assert re.findall(r"client_max_body_size (\d+);", text) == [str(config.max_body_bytes)]
    for name in ("proxy_read_timeout", "proxy_send_timeout"):
        (seconds,) = re.findall(rf"{name} (\d+)s;", text)
        assert int(seconds) > config.request_timeout_s


def test_answers_pass_with_their_version(client: httpx.Client) -> None:
    answer = client.post(CHAT, json=question())
    assert answer.status_code == 200 and answer.headers["x-turnout-version"] == answer.json()["model"] == "incidents-v2"
    assert "max-age" in answer.headers["strict-transport-security"]
    assert "incidents" in {model["id"] for model in client.get("/v1/models").json()["data"]}
    assert client.get("/ready").json()["status"] == "ready"


def test_the_first_tokens_arrive_while_the_engine_still_answers(site: Site, client: httpx.Client) -> None:
    for engine in site.engines:
        engine.behave(chunks=4, seconds=0.5)
    with client.stream("POST", CHAT, json=question(stream=True)) as answer:
        lines = answer.iter_lines()
        first = next(lines)
        assert first.startswith("data: {") and site.busy() == 1
        rest = [line for line in lines if line]
    assert len(rest) == 4 and rest[-1] == "data: [DONE]"
    for engine in site.engines:
        engine.behave(chunks=3, seconds=0)


def test_every_path_that_is_let_through_is_the_gateways(nginx: Nginx, client: httpx.Client) -> None:
    for path in public_paths():
        for answer in (client.get(path), client.post(path, json={})):
            assert answer.status_code != 404, (path, answer.text)


@pytest.mark.parametrize(
    "path",
    [
        "/admin/routes",
        "/metrics",
        "/inner/state",
        "/",
        "/v1",
        "/docs",
        "/%61dmin/routes",
        "//admin/routes",
        "/v1/models/",
    ],
)
def test_nothing_else_is_reached(nginx: Nginx, path: str) -> None:
    status, told = plainly(nginx, path)
    assert (status, told["error"]["message"]) == (404, "there is no such path here")


@pytest.mark.parametrize("path", ["/v1/../admin/routes", "/health/../admin/state", "/health%2f..%2fadmin/routes"])
def test_dots_lead_nowhere(nginx: Nginx, path: str) -> None:
    assert plainly(nginx, path)[0] == 404


def test_a_path_is_passed_on_as_it_was_understood(nginx: Nginx) -> None:
    # The gateway would take the path as it was written for an admin call.
    assert plainly(nginx, "/admin/../health") == (200, {"status": "ok"})


def test_large_bodies_are_refused_before_the_gateway(site: Site, client: httpx.Client) -> None:
    limit = site.config.max_body_bytes
    fits = client.post(CHAT, content=json.dumps(question()).ljust(limit))
    assert fits.status_code == 200, fits.text
    before = site.metric("turnout_requests_total")
    large = client.post(CHAT, content=json.dumps(question()).ljust(limit + 1))
    assert large.status_code == 413 and large.json()["error"]["code"] == "request_too_large"
    assert site.metric("turnout_requests_total") == before


def test_it_speaks_http_2_and_sends_plain_http_to_tls(nginx: Nginx) -> None:
    context = ssl.create_default_context(cafile=nginx.certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    plain = socket.create_connection(("localhost", nginx.https))
    with context.wrap_socket(plain, server_hostname="localhost") as secure:
        assert secure.selected_alpn_protocol() == "h2"
    moved = httpx.get(f"http://localhost:{nginx.http}/v1/models")
    assert moved.status_code == 308 and moved.headers["location"] == "https://localhost/v1/models"


def test_the_log_says_which_version_answered_and_holds_no_key(nginx: Nginx, client: httpx.Client) -> None:
    client.post(CHAT, json=question(), headers={"Authorization": "Bearer sk-turnout-hidden"})

    def logged() -> str:
        text = (nginx.folder / "access.log").read_text()
        return text if json.loads(text.splitlines()[-1])["path"] == CHAT else ""

    text = wait_until(logged, "the request is in the log")
    assert json.loads(text.splitlines()[-1])["version"] == "incidents-v2" and "hidden" not in text


def test_without_a_gateway_clients_are_told_in_openais_form(tmp_path: Path) -> None:
    with nginx_in_front(tmp_path, f"127.0.0.1:{free_port('127.0.0.1')}") as alone:
        answer = httpx.get(f"{alone.url}/health", verify=ssl.create_default_context(cafile=alone.certificate))
    assert answer.status_code == 503 and answer.headers["retry-after"]
    assert answer.json()["error"]["code"] == "no_gateway"


def test_beside_an_engine_only_its_figures_are_reached(site: Site, tmp_path: Path) -> None:
    port, engine = free_port("127.0.0.1"), site.config.port
    config = nginx_config(tmp_path, engine_metrics(port))
    url = f"http://127.0.0.1:{port}"
    with running([program("nginx"), "-c", str(config), "-p", str(tmp_path)], url, tmp_path / "error.log"):
        assert "turnout_requests_total" in httpx.get(f"{url}/{engine}/metrics").text
        for path in ("/metrics", f"/{engine}/v1/models", f"/{engine}/metrics/x", f"/{engine}/health"):
            assert httpx.get(url + path).status_code == 404
        assert httpx.post(f"{url}/{engine}/v1/load_lora_adapter", json={}).status_code == 404
