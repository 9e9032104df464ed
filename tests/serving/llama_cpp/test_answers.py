"""What a real llama.cpp engine answers: constrained, whole and streamed, and what it tells of itself."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import validate

from tests.serving.llama_cpp.conftest import LlamaCpp

pytestmark = pytest.mark.e2e

SCHEMA = {
    "type": "object",
    "properties": {"port": {"type": "integer", "minimum": 1, "maximum": 65535}, "open": {"type": "boolean"}},
    "required": ["port", "open"],
    "additionalProperties": False,
}
CHOICES = ["zebra", "quokka", "플랫폼"]
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def ask(engine: LlamaCpp, path: str, **fields: Any) -> Any:
    answer = httpx.post(engine.url + path, json={"model": engine.base.name, **fields}, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()


def said(engine: LlamaCpp, **fields: Any) -> str:
    """Each seed would write something else, if it were free to."""
    messages = [{"role": "user", "content": "Tell me about trains."}]
    answer = ask(engine, CHAT, messages=messages, temperature=1.5, max_tokens=64, **fields)
    return str(answer["choices"][0]["message"]["content"])


@pytest.mark.parametrize("seed", [1, 2])
def test_answers_keep_to_their_constraint(engine: LlamaCpp, seed: int) -> None:
    validate(json.loads(said(engine, seed=seed, structured_outputs={"json": SCHEMA})), SCHEMA)
    given = {"type": "json_schema", "json_schema": {"name": "port", "schema": SCHEMA}}
    validate(json.loads(said(engine, seed=seed, response_format=given)), SCHEMA)
    assert said(engine, seed=seed, structured_outputs={"choice": CHOICES}) in CHOICES
    grammar = 'root ::= "port " [0-9] [0-9]'
    for way in ({"grammar": grammar}, {"structured_outputs": {"grammar": grammar}}):
        words, digits = said(engine, seed=seed, **way).split()
        assert words == "port" and len(digits) == 2 and digits.isdigit()


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_whole_answer_is_what_its_stream_says(engine: LlamaCpp, path: str) -> None:
    prompt = (
        {"messages": [{"role": "user", "content": "연결이 거부되었습니다 🚂?"}]} if path == CHAT else {"prompt": "On"}
    )
    fields = {**prompt, "temperature": 0, "max_tokens": 12, "stop": ["\n\n\n"]}
    fields |= {"logprobs": True, "top_logprobs": 1} if path == CHAT else {"logprobs": 1}
    whole = ask(engine, path, **fields)
    (choice,) = whole["choices"]
    streamed = httpx.post(
        engine.url + path, json={"model": engine.base.name, "stream": True, **fields}, timeout=120
    ).text.splitlines()
    events = [json.loads(line[6:]) for line in streamed if line.startswith("data: {")]
    parts = [part for event in events for part in event["choices"]]
    text = "".join((part["delta"].get("content") if path == CHAT else part["text"]) or "" for part in parts)
    assert text == (choice["message"]["content"] if path == CHAT else choice["text"]) != ""
    assert choice["finish_reason"] == parts[-1]["finish_reason"] == "length"
    assert whole["object"] == ("chat.completion" if path == CHAT else "text_completion")
    assert whole["usage"]["completion_tokens"] == 12 and whole["model"] == engine.base.name
    steps = choice["logprobs"]["content"] if path == CHAT else choice["logprobs"]["token_logprobs"]
    assert 0 < len(steps) <= 12


def test_a_refused_request_gets_llama_cpps_reason(engine: LlamaCpp) -> None:
    body = {"model": engine.base.name, "prompt": "a " * 3000, "max_tokens": 1}
    answer = httpx.post(engine.url + COMPLETIONS, json=body, timeout=60)
    assert answer.status_code == 400 and "context" in answer.json()["error"]["message"]


def test_it_tells_the_models_sizes_and_its_settings(engine: LlamaCpp) -> None:
    told = httpx.get(f"{engine.url}/props", timeout=60).json()
    shape = json.loads((Path(engine.base.path) / "config.json").read_text())
    assert told["vocabulary"] == shape["vocab_size"] and told["embedding"] == shape["hidden_size"]
    assert told["layers"] == shape["num_hidden_layers"]
    assert told["context"] == 1024 and told["context_trained"] == shape["max_position_embeddings"]
    assert told["quantisation"] == "f16" and told["size_bytes"] > told["parameters"] > 10**8
    assert (told["mmap"], told["mlock"], told["batch"], told["slots"]) == (True, False, 512, 4)
    assert told["threads"] >= 1


def test_its_requests_are_counted(engine: LlamaCpp) -> None:
    assert engine.do(lambda client: client.load()) == (0, 0)
