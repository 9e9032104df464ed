"""/generate through a real worker: answers, events, faults, and the same rules as everywhere."""

import json
from typing import Any

import pytest

from serving.keys import add_key, remove_key
from tests.serving.gateway.conftest import BASE, HTTP, Site, wait_until

BOTH = ("vllm", "llama_cpp")
FIGURES = {
    "model",
    "backend_used",
    "generation_time",
    "tokens_per_second",
    "prompt_tokens",
    "completion_tokens",
    "finish_reason",
    "sampling",
    "why",
}


def frames(site: Site, path: str = "/generate/stream", **fields: Any) -> list[tuple[str, Any]]:
    """The events of a stream: their names and data."""
    answer = site.generate(path=path, **fields)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    read = []
    for block in answer.text.strip().split("\n\n"):
        name, data = block.split("\n")
        read.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return read


def sent(site: Site) -> list[dict[str, Any]]:
    return [request for engine in site.engines for request in engine.requests()]


def test_an_answer_has_its_text_and_figures(site: Site) -> None:
    answer = site.generate(task_type="code_generation", max_tokens=9, stop="\n", temperature=0.5)
    assert answer.status_code == 200
    told = answer.json()
    assert told.keys() == {"text", *FIGURES}
    assert told["text"] == 'hi "usage":{'
    assert (told["model"], answer.headers["x-turnout-version"]) == ("incidents-v2", "incidents-v2")
    assert (told["backend_used"], answer.headers["x-turnout-backend"]) == ("vllm", "vllm")
    assert (told["prompt_tokens"], told["completion_tokens"], told["finish_reason"]) == (7, 5, "stop")
    assert told["tokens_per_second"] == pytest.approx(5 / told["generation_time"], rel=0.01)
    assert told["sampling"] == {
        "mode": "precise",
        "task_type": "code_generation",
        "temperature": 0.5,
        "top_p": 0.8,
        "top_k": 20,
        "given": ["temperature"],
    }
    [request] = sent(site)
    assert request["path"] == "/v1/chat/completions"
    assert request["body"] == {
        "model": "incidents-v2",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.5,
        "top_p": 0.8,
        "top_k": 20,
        "max_tokens": 9,
        "stop": "\n",
    }


@pytest.mark.parametrize(("path", "fields"), [("/generate/stream", {}), ("/generate", {"stream": True})])
def test_a_stream_is_tokens_and_then_the_figures(site: Site, path: str, fields: dict[str, Any]) -> None:
    for engine in site.engines:
        engine.behave(mode="bytes")
    *tokens, (last, figures) = frames(site, path, **fields)
    assert tokens == [("token", {"token": f'w{index} "usage":{{'}) for index in range(3)]
    assert (last, figures.keys()) == ("done", FIGURES | {"time_to_first_token"})
    assert (figures["model"], figures["completion_tokens"]) == ("incidents-v2", 5)
    assert 0 < figures["time_to_first_token"] <= figures["generation_time"]
    assert sent(site)[0]["body"]["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    ("mode", "tokens", "message"),
    [
        ("cut", 3, "connection to the engine broke"),
        ("early", 3, "ended the stream early"),
        ("told", 3, "out of memory"),
    ],
)
def test_a_stream_that_breaks_says_so(site: Site, mode: str, tokens: int, message: str) -> None:
    site.push(site.routes(event=8000))
    for engine in site.engines:
        engine.behave(mode=mode)
    *before, (last, told) = frames(site)
    assert [name for name, _ in before] == ["token"] * tokens
    assert last == "error"
    assert message in told["error"]["message"]
    assert told["error"]["type"] == "server_error"
    assert site.state()["figures"]["incidents"]["arms"]["2"]["errors"] == 1


def test_an_engine_that_falls_silent_breaks_the_stream(site: Site) -> None:
    for engine in site.engines:
        engine.behave(seconds=1.2)
    assert [name for name, _ in frames(site)] == ["token", "error"]
    wait_until(lambda: site.busy() == 0, "nothing is in flight")


def test_faults_of_engines_are_error_objects(site: Site) -> None:
    for engine in site.engines:
        engine.behave(mode="nonsense", times=1)
    answer = site.generate()
    assert (answer.status_code, answer.json()["error"]["type"]) == (502, "server_error")
    for engine in site.engines:
        engine.behave(mode="error", times=1)
    answer = site.generate()
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, "broken")
    for engine in site.engines:
        engine.behave(mode="hang")
    assert site.generate().status_code == 504
    assert site.generate(path="/generate/stream").status_code == 504


def test_bad_requests_reach_no_engine(site: Site) -> None:
    wrong: dict[str, Any] = {"temperature": 9, "messages": [], "prompt": 1}
    for field, value in wrong.items():
        answer = site.generate(**{field: value})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)
    assert site.generate(path="/generate/stream", stream=False).json()["error"]["param"] == "stream"
    missing = site.generate(adapter="nobody")
    assert (missing.status_code, missing.json()["error"]["param"]) == (404, "adapter")
    assert "incidents" in missing.json()["error"]["message"]
    assert not sent(site)


@pytest.mark.parametrize("path", ["/generate", "/generate/stream"])
def test_the_paths_are_known(site: Site, path: str) -> None:
    assert HTTP.get(site.url + path).status_code == 405
    assert HTTP.request("OPTIONS", site.url + path).headers["allow"] == "POST, OPTIONS"
    assert path in HTTP.get(site.url + "/nothing").json()["error"]["message"]


def test_without_an_adapter_the_only_name_answers_else_the_only_base(site: Site) -> None:
    two = HTTP.post(site.url + "/generate", json={"prompt": "hi"})
    assert two.json()["model"] == BASE.name  # there are two names, and one base
    routes = site.routes()
    site.push(type(routes)(**{**routes.__dict__, "names": {"incidents": routes.names["incidents"]}}))
    assert HTTP.post(site.url + "/generate", json={"prompt": "hi"}).json()["model"] == "incidents-v2"
    text, blind = add_key(site.home, "makers", ["incidents"]), add_key(site.home, "blind", ["other"])
    try:
        site.push()
        wait_until(lambda: site.ask().status_code == 401, "the keys count")
        assert HTTP.post(site.url + "/generate", json={"prompt": "hi"}).status_code == 401
        mine = {"Authorization": f"Bearer {text}"}
        answer = HTTP.post(site.url + "/generate", json={"prompt": "hi"}, headers=mine)
        assert answer.json()["model"] == "incidents-v2"
        assert site.generate(headers=mine, adapter="support").status_code == 404
        assert site.generate(headers=mine, adapter="incidents-v1").json()["model"] == "incidents-v1"
        assert site.metric("turnout_completion_tokens_total", key="makers", name="incidents") == 10
        none = HTTP.post(site.url + "/generate", json={"prompt": "hi"}, headers={"Authorization": f"Bearer {blind}"})
        assert (none.status_code, none.json()["error"]["param"]) == (400, "adapter")
        assert "incidents" not in none.text
    finally:
        remove_key(site.home, "makers")
        remove_key(site.home, "blind")
        wait_until(lambda: site.ask().status_code == 200, "no key is needed")


def test_canaries_and_shadows_are_as_for_chats(site: Site) -> None:
    site.push(site.routes(event=9000, weights={"3": 50.0}, shadow={"1": 100.0}))
    users = [{"x-turnout-key": f"user-{number}"} for number in range(20)]
    chats = [site.ask(headers=user).json()["model"] for user in users]
    assert [site.generate(headers=user).json()["model"] for user in users] == chats
    assert set(chats) == {"incidents-v2", "incidents-v3"}
    arms = site.state()["figures"]["incidents"]["arms"]
    assert arms["2"]["requests"] + arms["3"]["requests"] == 40
    wait_until(lambda: "incidents-v1" in {request["body"]["model"] for request in sent(site)}, "the shadow is asked")


def test_a_backend_that_is_asked_for_answers_or_nobody_does(site: Site) -> None:
    site.push(site.routes(kinds=BOTH))
    for backend, engine in zip(BOTH, site.engines, strict=True):
        told = site.generate(backend=backend).json()
        assert (told["backend_used"], told["why"]) == (backend, f"asked for: backend {backend}")
        assert len(engine.requests()) == 1
    site.push()
    answer = site.generate(backend="llama_cpp")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "no llama_cpp engine answers for incidents-v2" in answer.json()["error"]["message"]
    assert answer.json()["error"]["message"].endswith("what does: vllm")
    assert len(sent(site)) == 2


def test_auto_goes_by_the_engines_own_counts(site: Site) -> None:
    site.push(site.routes(kinds=BOTH, concurrent=4))
    vllm, llama = site.engines
    assert site.generate(urgency="high").json()["backend_used"] == "vllm"
    vllm.behave(
        metrics='vllm:num_requests_running{model_name="m"} 4.0\nvllm:num_requests_waiting{model_name="m"} 1.0\n'
    )
    llama.behave(metrics="llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\n")

    def moved() -> bool:
        return bool(site.generate(urgency="high").json()["backend_used"] == "llama_cpp")

    wait_until(moved, "urgent requests leave the busy engine")
    told = site.generate(urgency="high").json()
    assert "urgent, vllm is busy" in told["why"]
    assert "vllm 1.25" in told["why"]
    assert site.generate(urgency="low").json()["backend_used"] == "llama_cpp"
    assert "requests wait on vllm" in site.generate().json()["why"]
    assert site.generate(prompt="word " * 101, urgency="high").json()["why"].startswith("long prompt")


def test_auto_tells_when_another_kind_had_to_answer(site: Site) -> None:
    site.push(site.routes(kinds=BOTH))
    site.engines[0].behave(mode="reset")
    told = site.generate().json()
    assert told["backend_used"] == "llama_cpp"
    assert told["why"].startswith("vllm does not answer; it was chosen as default")
