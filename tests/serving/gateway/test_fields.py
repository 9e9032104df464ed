"""Only documented fields reach an engine, and nothing that is sent makes the gateway fail."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.gateway.errors import ApiError
from serving.gateway.fields import CHAT, COMPLETIONS, FIELDS, encode_request, read_request

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = scalars | st.lists(scalars, max_size=2)


def read(path: str = CHAT, **fields: Any) -> dict[str, Any]:
    return read_request(path, json.dumps({"model": "m", **fields}).encode())


def refused(path: str = CHAT, **fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read(path, **fields)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    "field",
    [
        "prompt_logprobs",
        "priority",
        "chat_template",
        "mm_processor_kwargs",
        "kv_transfer_params",
        "vllm_xargs",
        "guided_json",
    ],
)
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_forbidden_fields_are_named(path: str, field: str) -> None:
    error = refused(path, **{field: 1})
    assert error.param == field
    assert field in error.message
    assert "temperature" in error.message


def test_scoring_a_prompt_is_forbidden() -> None:
    assert refused(COMPLETIONS, echo=True, logprobs=0).param == "echo"
    assert read(COMPLETIONS, echo=True, logprobs=None)["echo"] is True
    assert read(COMPLETIONS, echo=False, logprobs=1)["logprobs"] == 1


def test_null_counts_as_absent() -> None:
    assert read(prompt_logprobs=None, stream=None, n=None) == {"model": "m"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", 3),
        ("model", ["m"]),
        ("stream", "yes"),
        ("stream", 1),
        ("stream_options", True),
        ("user", 5),
        ("safety_identifier", {}),
        ("n", 17),
        ("n", 0),
        ("n", True),
        ("n", 1.5),
        ("max_tokens", -1),
        ("max_tokens", "9"),
        ("logprobs", 21),
        ("top_logprobs", 21),
    ],
)
def test_wrong_values_are_named(field: str, value: Any) -> None:
    error = refused(**{field: value})
    assert error.param == field
    assert field in error.message


def test_more_candidates_than_answers_are_refused() -> None:
    assert refused(COMPLETIONS, best_of=4).param == "best_of"
    assert "best_of" not in orjson.loads(encode_request(read(COMPLETIONS, best_of=4, n=4), "m", ask_usage=False))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[1]",
        b"null",
        b'"model"',
        b'{"model":NaN}',
        b'{"model":"\xff"}',
        b'{"model":"\\ud800"}',
        b"[" * 100_000,
        b'{"model":"m","messages":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"messages":[]}',
    ],
)
def test_broken_bodies_are_refused(raw: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        encode_request(read_request(CHAT, raw), "m", ask_usage=True)
    assert caught.value.status == 400


def test_of_two_equal_fields_the_checked_one_is_sent() -> None:
    request = read_request(CHAT, b'{"model":"a","n":99,"n":2,"model":"b"}')
    assert orjson.loads(encode_request(request, "b-v1", ask_usage=False)) == {"model": "b-v1", "n": 2}


def test_usage_is_asked_for_without_what_depends_on_it() -> None:
    request = read(stream=True, stream_options={"include_usage": False, "continuous_usage_stats": True})
    assert orjson.loads(encode_request(request, "m", ask_usage=True))["stream_options"] == {"include_usage": True}


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(FIELDS[COMPLETIONS])) | st.text(max_size=5), values, max_size=5))
def test_any_object_is_taken_or_refused(fields: dict[str, Any]) -> None:
    try:
        raw = json.dumps(fields).encode()
        encode_request(read_request(COMPLETIONS, raw), "m", ask_usage=True)
    except ApiError as error:
        assert error.status == 400
        assert orjson.loads(error.body())["error"]["message"]
