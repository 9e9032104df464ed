"""Streams arrive at once and unchanged."""

import json
import socket
import time

import httpx
import pytest

from tests.serving.gateway.conftest import CHAT, HTTP, Site, wait_until
from tests.serving.gateway.stub_engine import USAGE, event, usage_event

DONE = b"data: [DONE]\n\n"
CHUNKS = b"".join(event("incidents-v2", index) for index in range(3))


@pytest.mark.parametrize("mode", ["ok", "bytes"])
def test_the_usage_chunk_goes_to_those_who_asked(site: Site, mode: str) -> None:
    for engine in site.engines:
        engine.behave(mode=mode)
    before = site.metric("turnout_completion_tokens_total", version="incidents-v2")
    assert site.ask(stream=True).content == CHUNKS + DONE
    asked = site.ask(stream=True, stream_options={"include_usage": True})
    assert asked.content == CHUNKS + usage_event("incidents-v2") + DONE
    assert asked.headers["content-type"].startswith("text/event-stream")
    assert asked.headers["x-turnout-version"] == "incidents-v2"
    assert (
        site.metric("turnout_completion_tokens_total", version="incidents-v2")
        == before + 2 * USAGE["completion_tokens"]
    )
    assert all(
        request["body"]["stream_options"] == {"include_usage": True}
        for engine in site.engines
        for request in engine.requests()
    )


def test_each_chunk_is_passed_on_when_it_comes(site: Site) -> None:
    for engine in site.engines:
        engine.behave(seconds=0.3)
    body = {"model": "incidents", "messages": [], "stream": True}
    began = time.monotonic()
    with HTTP.stream("POST", site.url + CHAT, json=body) as answer:
        arrived = [(time.monotonic() - began, chunk) for chunk in answer.iter_raw()]
    assert arrived[0][1] == event("incidents-v2", 0)
    assert arrived[0][0] < 0.25
    assert arrived[1][0] - arrived[0][0] > 0.2
    assert site.metric("turnout_time_to_first_token_seconds_count", version="incidents-v2") >= 1


@pytest.mark.parametrize("mode", ["cut", "early"])
def test_a_stream_that_breaks_ends_with_an_error(site: Site, mode: str) -> None:
    site.push(site.routes(event=5000))
    for engine in site.engines:
        engine.behave(mode=mode)
    *chunks, last = site.events()
    assert [chunk["choices"][0]["delta"]["content"][:2] for chunk in chunks] == ["w0", "w1", "w2"]
    assert last["error"]["type"] == "server_error"
    assert site.state()["figures"]["incidents"]["arms"]["2"]["errors"] == 1


def test_an_engine_that_falls_silent_breaks_the_stream(site: Site) -> None:
    for engine in site.engines:
        engine.behave(seconds=1.2)
    *chunks, last = site.events()
    assert len(chunks) == 1
    assert "too long" in last["error"]["message"]
    wait_until(lambda: site.busy() == 0, "nothing is in flight")


def test_a_client_that_leaves_ends_the_work_for_it(site: Site) -> None:
    for engine in site.engines:
        engine.behave(chunks=1000, seconds=0.05)
    body = {"model": "incidents", "messages": [], "stream": True}
    with HTTP.stream("POST", site.url + CHAT, json=body) as answer:
        chunks = answer.iter_raw()
        next(chunks)
        assert site.busy() == 1
    wait_until(lambda: site.busy() == 0, "nothing is in flight")
    wait_until(lambda: sum(engine.tells()["broken_off"] for engine in site.engines) == 1, "the engine is told")


def test_a_client_that_waits_for_a_plain_answer_and_leaves_ends_the_work(site: Site) -> None:
    for engine in site.engines:
        engine.behave(mode="hang")
    with pytest.raises(httpx.ReadTimeout):
        HTTP.post(site.url + CHAT, json={"model": "incidents", "messages": []}, timeout=0.3)
    wait_until(lambda: sum(engine.tells()["broken_off"] for engine in site.engines) == 1, "the engine is told")
    assert site.busy() == 0


def test_a_client_that_takes_nothing_is_dropped(site: Site) -> None:
    for engine in site.engines:
        engine.behave(mode="flood")
    body = json.dumps({"model": "incidents", "messages": [], "stream": True}).encode()
    with socket.create_connection((site.config.host, site.config.port)) as client:
        client.sendall(
            b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (CHAT.encode(), len(body), body)
        )
        wait_until(lambda: site.busy() == 1, "the stream began")
        wait_until(lambda: site.busy() == 0, "the stream is given up")
    assert site.metric("turnout_errors_total", kind="slow_client") >= 1


def test_a_stream_stays_on_its_version(site: Site) -> None:
    for engine in site.engines:
        engine.behave(seconds=0.1, chunks=5)
    body = {"model": "incidents", "messages": [], "stream": True}
    with HTTP.stream("POST", site.url + CHAT, json=body) as answer:
        lines = answer.iter_lines()
        models = {json.loads(next(lines).removeprefix("data: "))["model"]}
        site.push(site.routes(champion=3))
        assert site.ask().json()["model"] == "incidents-v3"
        rest = [line.removeprefix("data: ") for line in lines if line]
        models |= {json.loads(text)["model"] for text in rest if text != "[DONE]"}
    assert models == {"incidents-v2"}
    assert rest[-1] == "[DONE]"
