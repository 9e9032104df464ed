"""The judge behind a real HTTP server that answers as the test says."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pydantic import ValidationError

from tasks.answers_config import JudgeConfig
from tasks.gate.grading import judge_rule, read_grade
from tests.tasks.measured import WELL
from turnout.errors import BadInput, JudgeFailed

JUDGE = JudgeConfig(url="http://127.0.0.1:9", model="judge")


@dataclass
class Endpoint:
    """What came in, and how the next requests are answered: a status and the judge's words, or a whole body."""

    url: str = ""
    reply: Callable[[str], tuple[int, Any]] = lambda _question: (200, "8")
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


@contextmanager
def serving(endpoint: Endpoint) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            endpoint.asked.append(body)
            endpoint.keys.append(self.headers["authorization"])
            status, words = endpoint.reply(body["messages"][0]["content"])
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": words}}
            whole = {"id": "1", "object": "chat.completion", "created": 1, "model": "judge", "choices": [choice]}
            sent = json.dumps(whole if isinstance(words, str) else words).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("TURNOUT_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "a secret of the user's")
    found = Endpoint()
    with serving(found):
        yield found


def at(endpoint: Endpoint, **more: Any) -> JudgeConfig:
    return JUDGE.model_copy(update={"url": endpoint.url, "concurrency": 1} | more)


def test_the_mean_grade_counts_and_grades_are_kept(endpoint: Endpoint) -> None:
    endpoint.reply = lambda question: (200, "9" if "And now?" in question else "Grade: 5/10")
    rule = judge_rule(at(endpoint), WELL)
    assert rule.passed and (rule.figure, rule.limit) == (7.0, 6.0)
    assert "What?" in endpoint.asked[0]["messages"][0]["content"] and endpoint.asked[0]["temperature"] == 0.0
    assert not judge_rule(at(endpoint, least=8.0), WELL).passed and len(endpoint.asked) == 2


def test_a_reply_without_a_grade_stops_and_the_next_run_goes_on(endpoint: Endpoint) -> None:
    endpoint.reply = lambda question: (200, "I cannot say." if "And now?" in question else "7")
    with pytest.raises(JudgeFailed, match=r"no grade from 1 to 10: 'I cannot say\.'") as caught:
        judge_rule(at(endpoint), WELL)
    assert caught.value.may_pass and caught.value.exit_code == 1
    endpoint.reply = lambda _question: (200, "8")
    assert judge_rule(at(endpoint), WELL).figure == 7.5 and len(endpoint.asked) == 3


@pytest.mark.parametrize("answer", [(401, {"error": {"message": "no such key"}}), (200, {"detail": "no"}), (200, [])])
def test_an_endpoint_that_is_none_is_named(endpoint: Endpoint, answer: tuple[int, Any]) -> None:
    endpoint.reply = lambda _question: answer
    with pytest.raises(JudgeFailed, match=endpoint.url):
        judge_rule(at(endpoint), WELL)


@pytest.mark.parametrize("content", [8, ["8"], {"grade": 8}])
def test_a_reply_that_is_no_text_is_no_grade(endpoint: Endpoint, content: Any) -> None:
    endpoint.reply = lambda _question: (200, {"choices": [{"index": 0, "message": {"content": content}}]})
    with pytest.raises(JudgeFailed, match="a reply that is no text"):
        judge_rule(at(endpoint), WELL)


def test_an_endpoint_that_is_not_there_is_named(endpoint: Endpoint) -> None:
    with pytest.raises(JudgeFailed, match="does not answer: APIConnectionError"):
        judge_rule(JUDGE, WELL)


def test_the_key_is_the_one_that_the_preset_names(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    judge_rule(at(endpoint), WELL)
    assert endpoint.keys[0] == "Bearer none"
    with pytest.raises(BadInput, match="JUDGE_KEY, which is not set"):
        judge_rule(at(endpoint, api_key_env="JUDGE_KEY", model="other"), WELL)
    monkeypatch.setenv("JUDGE_KEY", "k1")
    judge_rule(at(endpoint, api_key_env="JUDGE_KEY", model="other"), WELL)
    assert endpoint.keys[-1] == "Bearer k1"


def test_an_answer_cannot_fill_in_the_prompt(endpoint: Endpoint) -> None:
    judge_rule(at(endpoint, prompt="{prompt}|{answer}"), [replace(WELL[0], prompt="{expected}{answer}", text="{x}")])
    assert endpoint.asked[0]["messages"][0]["content"] == "{expected}{answer}|{x}"


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ("8", 8),
        ("**8**", 8),
        ("Grade: 7/10.", 7),
        ('{"score": 6.5}', 6.5),
        ("On a scale from 1 to 10: 9", 9),
        ("8 out of 10", 8),
        ("10", 10),
        ("<think>maybe 3</think>\n4점", 4),
    ],
)
def test_grades_are_read(reply: str, grade: float) -> None:
    assert read_grade(reply, JUDGE) == grade


@pytest.mark.parametrize("reply", ["", "none", "0", "11", "85/100", "-3", "<think>7</think>"])
def test_what_is_no_grade_is_none(reply: str) -> None:
    with pytest.raises(JudgeFailed):
        read_grade(reply, JUDGE)


def test_a_judge_must_see_the_answer() -> None:
    with pytest.raises(ValidationError, match="would not see what it grades"):
        JudgeConfig(url="http://127.0.0.1", model="j", prompt="Grade it.")
    assert not judge_rule(JUDGE, []).passed
