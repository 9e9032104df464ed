"""Which version answers, who may call it, and what is refused before any engine sees it."""

import http.client
import json
import time
from collections import Counter

import pytest

from serving.keys import add_key, remove_key
from tests.serving.gateway.conftest import BASE, CHAT, HTTP, SERVED, Site, wait_until


def test_names_pins_and_bases_go_where_the_routes_say(site: Site) -> None:
    for asked, version in [
        ("incidents", "incidents-v2"),
        ("incidents-v1", "incidents-v1"),
        ("support", "support-v1"),
        (BASE.name, BASE.name),
    ]:
        answer = site.ask(asked)
        assert (answer.status_code, answer.json()["model"], answer.headers["x-turnout-version"]) == (
            200,
            version,
            version,
        )
    assert {request["body"]["model"] for engine in site.engines for request in engine.requests()} == {
        "incidents-v2",
        "incidents-v1",
        "support-v1",
        BASE.name,
    }


def test_requests_and_answers_pass_with_the_headers_that_matter(site: Site) -> None:
    sent = {"Authorization": "Bearer secret", "x-request-id": "r-1", "traceparent": "00-1", "Cookie": "a=b"}
    answer = site.ask(headers=sent, temperature=0.25, seed=None)
    [request] = [request for engine in site.engines for request in engine.requests()]
    assert request["body"] == {
        "model": "incidents-v2",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.25,
    }
    got = {name.lower(): value for name, value in request["headers"].items()}
    assert (got["x-request-id"], got["traceparent"]) == ("r-1", "00-1")
    assert not {"authorization", "cookie"} & got.keys()
    assert answer.headers["x-request-id"] == "from-engine"
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert answer.headers["server"] == "turnout"


def test_pushed_routes_hold_at_once_and_older_ones_are_ignored(site: Site) -> None:
    old = site.routes(champion=3)
    new = site.routes(champion=1)
    assert site.push(new) == [new.generation]
    assert site.ask().headers["x-turnout-version"] == "incidents-v1"
    assert site.push(old) == [new.generation]
    assert site.ask().headers["x-turnout-version"] == "incidents-v1"
    assert HTTP.get(f"{site.url}/admin/routes", headers=site.admin).json()["generation"] == new.generation


def test_unknown_models_are_told_the_known_names(site: Site) -> None:
    answer = site.ask("incident")
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["code"]) == (404, "invalid_request_error", "model_not_found")
    for name in ("incidents", "support", BASE.name, *SERVED):
        assert name in error["message"]
    assert site.ask("incidents-v9").status_code == 404


def test_a_canary_gets_its_share_and_keeps_its_clients(site: Site) -> None:
    site.push(site.routes(weights={"3": 50.0}))
    users = [f"user-{number}" for number in range(40)]
    before = {user: site.ask(user=user).json()["model"] for user in users}
    assert set(before.values()) == {"incidents-v2", "incidents-v3"}
    assert all(site.ask(headers={"x-turnout-key": user}).json()["model"] == before[user] for user in users[:10])
    site.push(site.routes(weights={"3": 80.0}))
    after = {user: site.ask(safety_identifier=user).json()["model"] for user in users}
    assert all(after[user] == "incidents-v3" for user in users if before[user] == "incidents-v3")
    assert len(Counter(site.ask().json()["model"] for _ in range(30))) == 2


def test_figures_count_arms_since_their_event(site: Site) -> None:
    site.push(site.routes(event=1000, weights={"3": 100.0}))
    site.ask()
    site.ask("incidents-v3")
    site.push(site.routes(event=1000, weights={"3": 100.0}))
    site.ask()
    figures = site.state()["figures"]["incidents"]
    arm = figures["arms"]["3"]
    assert (figures["event"], arm["requests"], arm["errors"], sum(arm["seconds"])) == (1000, 2, 0, 2)
    assert 0 < arm["seconds_sum"] < 5
    site.push(site.routes(event=1001))
    assert site.state()["figures"]["incidents"]["arms"].get("3", {"requests": 0})["requests"] == 0


def test_shadows_get_copies_and_nobody_gets_their_answers(site: Site) -> None:
    site.push(site.routes(shadow={"3": 100.0}))
    assert site.ask().headers["x-turnout-version"] == "incidents-v2"

    def models() -> list[str]:
        return sorted(request["body"]["model"] for engine in site.engines for request in engine.requests())

    wait_until(lambda: models() == ["incidents-v2", "incidents-v3"], "the shadow is asked too")
    wait_until(lambda: site.busy() == 0, "the copy is done")
    assert site.metric("turnout_shadow_requests_total", version="incidents-v3", outcome="answered") == 1
    site.ask("incidents-v2")
    assert len(models()) == 3
    dropped = site.metric("turnout_shadow_requests_total", outcome="dropped")
    site.push(site.routes(shadow={"3": 100.0}, concurrent=0))
    assert site.ask().status_code == 200
    assert site.metric("turnout_shadow_requests_total", outcome="dropped") == dropped + 1


def test_keys_open_their_names_only(site: Site) -> None:
    text = add_key(site.home, "team", ["incidents"])
    every = add_key(site.home, "all", ["*"])
    try:
        wait_until(lambda: site.ask().status_code == 401, "the keys count")
        mine, wrong = {"Authorization": f"Bearer {text}"}, {"Authorization": f"Bearer {text}x"}
        assert site.ask(headers=wrong).json()["error"]["code"] == "invalid_api_key"
        assert HTTP.get(f"{site.url}/v1/models").status_code == 401
        assert site.ask(headers=mine).status_code == 200
        assert site.ask("incidents-v1", headers=mine).status_code == 200
        hidden = site.ask("support", headers=mine)
        assert hidden.status_code == 404
        assert "support-v1" not in hidden.text
        assert BASE.name not in hidden.json()["error"]["message"].partition("Known:")[2]
        listed = HTTP.get(f"{site.url}/v1/models", headers=mine).json()["data"]
        assert [model["id"] for model in listed] == ["incidents", "incidents-v1", "incidents-v2", "incidents-v3"]
        assert site.ask("support", headers={"Authorization": f"Bearer {every}"}).status_code == 200
        counted = site.metric("turnout_completion_tokens_total", key="team", name="incidents")
        assert counted == 5 * 2
        assert site.metric("turnout_prompt_tokens_total", key="all", version="support-v1") == 7
    finally:
        remove_key(site.home, "team")
        remove_key(site.home, "all")
        wait_until(lambda: site.ask().status_code == 200, "no key is needed")


def test_models_are_listed_with_their_base(site: Site) -> None:
    listed = HTTP.get(f"{site.url}/v1/models").json()["data"]
    assert [model["id"] for model in listed[:2]] == ["incidents", "support"]
    assert {model["root"] for model in listed} == {BASE.name}
    assert listed[-1]["id"] == BASE.name


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("POST", "/v1/load_lora_adapter", 404),
        ("POST", "/v1/chat/completions/", 404),
        ("GET", "/inner/state", 404),
        ("GET", CHAT, 405),
        ("DELETE", "/v1/models", 405),
        ("OPTIONS", CHAT, 204),
        ("HEAD", "/health", 200),
        ("GET", "/health", 200),
        ("GET", "/ready", 200),
    ],
)
def test_only_listed_paths_answer(site: Site, method: str, path: str, status: int) -> None:
    answer = HTTP.request(method, site.url + path)
    assert answer.status_code == status
    if status in (404, 405):
        assert answer.json()["error"]["message"]
    assert not any(engine.requests() for engine in site.engines)


def test_bad_requests_name_the_field(site: Site) -> None:
    answer = site.ask(prompt_logprobs=1)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "prompt_logprobs")
    assert HTTP.post(site.url + CHAT, content=b"{").status_code == 400
    assert not any(engine.requests() for engine in site.engines)


def test_bodies_over_the_limit_are_refused(site: Site) -> None:
    assert site.ask(user="x" * 100_000).status_code == 413
    chunked = HTTP.post(site.url + CHAT, content=(b"x" * 1000 for _ in range(200)))
    assert chunked.status_code == 413
    assert chunked.json()["error"]["code"] == "request_too_large"


def test_clients_that_wait_for_leave_to_send_get_it(site: Site) -> None:
    body = json.dumps({"model": "incidents", "messages": []}).encode()
    connection = http.client.HTTPConnection(site.config.host, site.config.port, timeout=5)
    connection.putrequest("POST", CHAT)
    connection.putheader("Content-Length", str(len(body)))
    connection.putheader("Expect", "100-continue")
    connection.endheaders()
    assert connection.sock.recv(100).startswith(b"HTTP/1.1 100 Continue")
    connection.send(body)
    assert connection.getresponse().status == 200


def test_a_client_that_does_not_send_its_body_is_told(site: Site) -> None:
    connection = http.client.HTTPConnection(site.config.host, site.config.port, timeout=5)
    connection.putrequest("POST", CHAT)
    connection.putheader("Content-Length", "100")
    connection.endheaders()
    began = time.monotonic()
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["error"]["type"]) == (408, "timeout_error")
    assert time.monotonic() - began >= site.config.client_timeout_s * 0.9


def test_broken_http_gets_an_error_object(site: Site) -> None:
    answer = HTTP.get(f"{site.url}/health", headers={"x-long": "y" * 20_000})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
