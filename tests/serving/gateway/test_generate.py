"""What /generate takes, and what it makes of that for an engine."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.config import GatewayConfig
from serving.gateway.errors import ApiError
from serving.gateway.fields import encode_request
from serving.gateway.generate import GENERATE, GENERATE_STREAM, Generation, read_generate

CONFIG = GatewayConfig()
FIELDS = [
    *("prompt", "max_tokens", "temperature", "top_p", "top_k", "repetition_penalty", "stop", "grammar"),
    *("json_schema", "stream", "backend", "urgency", "task_type", "adapter"),
]

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.text(max_size=3), scalars, max_size=2)


def read(path: str = GENERATE, **fields: Any) -> Generation:
    return read_generate(path, json.dumps({"prompt": "Hello", **fields}).encode(), CONFIG)


def test_the_prompt_becomes_the_message_of_a_user() -> None:
    generation = read()
    assert generation.fields == {
        "messages": [{"role": "user", "content": "Hello"}],
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
    }
    assert (generation.backend, generation.wanted.urgency, generation.wanted.max_tokens) == ("auto", "normal", None)


def test_everything_that_is_given_is_passed_on() -> None:
    given: dict[str, Any] = {
        "max_tokens": 7,
        "temperature": 0,
        "top_p": 1,
        "top_k": 0,
        "repetition_penalty": 1.2,
        "stop": ["a"],
    }
    generation = read(**given, backend="vllm", urgency="low", task_type="x", adapter="bot-v2", stream=True)
    sent = {**given, "messages": [{"role": "user", "content": "Hello"}], "model": "bot-v2", "stream": True}
    assert generation.fields == sent
    assert (generation.backend, generation.wanted.urgency, generation.wanted.max_tokens) == ("vllm", "low", 7)


def test_constraints_go_in_the_form_that_both_kinds_of_engine_take() -> None:
    assert read(grammar='root ::= "yes"').fields["structured_outputs"] == {"grammar": 'root ::= "yes"'}
    assert read(json_schema={"type": "object"}).fields["structured_outputs"] == {"json": {"type": "object"}}


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("prompt", "", "a string that is not empty"),
        ("prompt", ["a"], "a string"),
        ("max_tokens", 0, "a whole number from 1 up"),
        ("max_tokens", 1.5, "a whole number"),
        ("max_tokens", True, "a whole number"),
        ("temperature", -0.1, "from 0 to 2"),
        ("temperature", 2.1, "from 0 to 2"),
        ("temperature", "hot", "a number"),
        ("temperature", False, "a number"),
        ("top_p", 0, "above 0 to 1"),
        ("top_p", 1.01, "above 0 to 1"),
        ("top_k", -1, "from 0"),
        ("repetition_penalty", 0, "above 0 to 2"),
        ("stop", "", "none of them empty"),
        ("stop", [], "1 to 16"),
        ("stop", ["x"] * 17, "1 to 16"),
        ("stop", [1], "strings"),
        ("grammar", "", "not empty"),
        ("grammar", "x" * 65_537, "65536"),
        ("json_schema", "{}", "an object"),
        ("stream", 1, "true or false"),
        ("backend", "tgi", "vllm, llama_cpp, auto"),
        ("backend", [], "vllm, llama_cpp, auto"),
        ("urgency", "now", "high, normal, low"),
        ("task_type", 3, "a string"),
        ("task_type", "x" * 65, "64"),
        ("adapter", 3, "a string"),
    ],
)
def test_wrong_values_are_named_with_what_is_wanted(field: str, value: Any, wanted: str) -> None:
    with pytest.raises(ApiError) as caught:
        read(**{field: value})
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, field, "invalid_value")
    assert caught.value.message.startswith(f"{field} is ")
    assert wanted in caught.value.message


def test_other_fields_and_missing_prompts_are_refused() -> None:
    with pytest.raises(ApiError, match="takes no field 'messages'") as unknown:
        read(messages=[])
    assert unknown.value.param == "messages"
    assert all(field in unknown.value.message for field in FIELDS)
    with pytest.raises(ApiError, match="'prompt' is missing"):
        read_generate(GENERATE, b"{}", CONFIG)
    with pytest.raises(ApiError, match="one of them"):
        read(grammar="root ::= x", json_schema={})


def test_the_streaming_path_streams() -> None:
    assert read(GENERATE_STREAM).fields["stream"] is True
    assert read(GENERATE_STREAM, stream=None).fields["stream"] is True
    assert "stream" not in read().fields
    with pytest.raises(ApiError, match="stream is False: it must be true or absent") as refused:
        read(GENERATE_STREAM, stream=False)
    assert refused.value.param == "stream"


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), values, max_size=5))
def test_any_object_is_taken_or_refused(fields: dict[str, Any]) -> None:
    try:
        generation = read_generate(GENERATE, json.dumps(fields).encode(), CONFIG)
        encode_request(generation.fields, "m", ask_usage=True)
    except ApiError as error:
        assert error.status == 400
        assert orjson.loads(error.body())["error"]["message"]
