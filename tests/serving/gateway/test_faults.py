"""Engines that fail: other ones answer where they can, and clients get a clear error where none can."""

import json
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from tests.serving.gateway.conftest import BASE, HTTP, SERVED, Site, wait_until
from turnout.files import write_json


def test_the_least_busy_engine_answers(site: Site) -> None:
    for engine in site.engines:
        engine.behave(seconds=0.3)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: site.ask(), range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert [len(engine.requests()) for engine in site.engines] == [4, 4]
    assert site.busy() == 0


def test_a_dead_engine_costs_no_request_and_comes_back(site: Site) -> None:
    dead, alive = site.engines
    dead.kill()
    try:
        assert [site.ask().status_code for _ in range(4)] == [200] * 4
        assert site.state()["ejected"] == ["one"]
        assert len(alive.requests()) == 4
        assert site.metric("turnout_replica_up", replica="one") == 0
    finally:
        dead.start("incidents-v1")
    wait_until(lambda: site.state()["ejected"] == [], "the engine is taken back")
    # It came back without the champion, which goes to the other one until routes say that it has it again.
    assert [site.ask().status_code for _ in range(3)] == [200] * 3
    assert not dead.requests()
    dead.behave(names=[BASE.name, *SERVED])
    site.push()
    for _ in range(2):
        site.ask()
    assert len(dead.requests()) == 1


def test_a_connection_that_breaks_is_tried_again(site: Site) -> None:
    site.engines[0].behave(mode="reset", times=1)
    assert [site.ask().status_code for _ in range(2)] == [200] * 2
    assert site.state()["ejected"] == []
    for engine in site.engines:
        engine.behave(mode="reset")
    answer = site.ask()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.headers["x-turnout-version"] == "incidents-v2"


def test_a_stale_connection_to_the_only_engine_is_replaced(site: Site) -> None:
    routes = site.routes()
    site.push(type(routes)(**{**routes.__dict__, "replicas": routes.replicas[:1]}))
    assert site.ask().status_code == 200
    site.engines[0].behave(mode="reset", times=1)
    assert site.ask().status_code == 200
    assert len(site.engines[0].requests()) == 3


def test_an_adapter_that_was_unloaded_is_asked_for_elsewhere(site: Site) -> None:
    pokes: list[str] = []

    class Reconciler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            pokes.append(f"{self.path} {self.headers['Authorization']}")
            self.send_response(200)
            self.end_headers()

    server = HTTPServer(("127.0.0.1", 0), Reconciler)
    Thread(target=server.serve_forever, daemon=True).start()
    write_json(site.home.reconciler, {"url": f"http://127.0.0.1:{server.server_port}", "pid": 1, "create_time": 0})
    try:
        site.engines[0].behave(names=[BASE.name])
        assert [site.ask().status_code for _ in range(6)] == [200] * 6
        asked = [request["body"]["model"] for request in site.engines[0].requests()]
        assert asked == ["incidents-v2"]
        wait_until(lambda: pokes, "the reconciler is told")
        assert pokes == [f"/admin/reconcile {site.admin['Authorization']}"]
        site.engines[1].behave(names=[BASE.name])
        answer = site.ask()
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        ready = HTTP.get(f"{site.url}/ready")
        assert ready.status_code == 503
        assert "incidents-v2" in ready.json()["error"]["message"]
        assert site.ask(BASE.name).status_code == 200
    finally:
        site.home.reconciler.unlink()
        server.shutdown()
        server.server_close()


def test_an_engine_that_answers_5xx_in_a_row_is_left_alone(site: Site) -> None:
    site.push(site.routes(event=7000))
    site.engines[0].behave(mode="error", times=3)
    statuses = [site.ask().status_code for _ in range(8)]
    assert statuses.count(500) == 3
    assert statuses[-2:] == [200, 200]
    assert site.state()["figures"]["incidents"]["arms"]["2"]["errors"] == 3
    wait_until(lambda: site.state()["ejected"] == [], "the engine is taken back")


def test_an_error_of_the_engine_passes_unchanged(site: Site) -> None:
    for engine in site.engines:
        engine.behave(mode="error", times=1)
    answer = site.ask(stream=True)
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, "broken")
    assert answer.headers["x-turnout-version"] == "incidents-v2"


def test_an_engine_that_does_not_answer_in_time(site: Site) -> None:
    for engine in site.engines:
        engine.behave(mode="hang")
    plain, streamed = site.ask(), site.ask(stream=True)
    assert (plain.status_code, plain.json()["error"]["type"]) == (504, "timeout_error")
    assert "1.5 s" in plain.json()["error"]["message"]
    assert streamed.status_code == 504
    assert "0.7 s" in streamed.json()["error"]["message"]
    assert site.busy() == 0


def test_an_engine_that_does_not_speak_http(site: Site) -> None:
    for engine in site.engines:
        engine.behave(mode="garbage")
    answer = site.ask()
    assert (answer.status_code, answer.json()["error"]["type"]) == (502, "server_error")


def test_more_waiting_requests_than_the_bound_are_refused(site: Site) -> None:
    site.push(site.routes(concurrent=1))
    for engine in site.engines:
        engine.behave(seconds=0.5)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: site.ask(), range(8)))
    refused = [answer for answer in answers if answer.status_code == 429]
    assert [answer.status_code for answer in answers].count(200) == 2 * 1 + site.config.max_queued
    assert len(refused) == 4
    assert refused[0].headers["retry-after"] == "1"
    assert refused[0].json()["error"]["type"] == "rate_limit_error"


@pytest.mark.parametrize("path", ["/admin/figures", "/admin/reconcile"])
def test_admin_calls_without_a_reconciler(site: Site, path: str) -> None:
    answer = HTTP.post(site.url + path, headers=site.admin)
    assert answer.status_code == 503
    assert "turnout up" in answer.json()["error"]["message"]


def test_admin_calls_go_on_to_the_reconciler(site: Site) -> None:
    class Reconciler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told = {"path": self.path, "body": json.loads(body), "token": self.headers["Authorization"]}
            self.send_response(409)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(told).encode())

    server = HTTPServer(("127.0.0.1", 0), Reconciler)
    Thread(target=server.serve_forever, daemon=True).start()
    write_json(site.home.reconciler, {"url": f"http://127.0.0.1:{server.server_port}", "pid": 1, "create_time": 0})
    try:
        assert HTTP.post(f"{site.url}/admin/override", json={"a": 1}).status_code == 401
        answer = HTTP.post(f"{site.url}/admin/override?x=1", json={"a": 1}, headers=site.admin)
        assert answer.status_code == 409
        token = site.admin["Authorization"]
        assert answer.json() == {"path": "/admin/override?x=1", "body": {"a": 1}, "token": token}
    finally:
        site.home.reconciler.unlink()
        server.shutdown()
        server.server_close()
