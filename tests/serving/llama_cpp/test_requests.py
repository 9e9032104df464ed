"""Requests as vLLM takes them, for llama.cpp: what is passed on, translated, left out and refused."""

from typing import Any

import pytest

from serving.gateway.fields import CHAT, COMPLETIONS, FIELDS
from serving.llama_cpp.errors import RequestRefused
from serving.llama_cpp.requests import translate


def translated(chat: bool = False, defaults: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"messages": []} if chat else {"prompt": "a"}
    request = {"model": "m", **asked, **fields}
    return translate(request, chat=chat, context=64, defaults=defaults or {})


def test_sampling_starts_from_vllms_defaults_not_llama_cpps() -> None:
    body = translated()
    assert (body["temperature"], body["top_p"], body["top_k"], body["min_p"]) == (1.0, 1.0, 0, 0.0)
    assert body["max_tokens"] == 16 and "max_tokens" not in translated(chat=True)


def test_the_models_own_defaults_stand_between() -> None:
    own = {"temperature": 0.2, "top_k": 50, "repetition_penalty": 1.3}
    body = translated(defaults=own, temperature=0.7)
    assert (body["temperature"], body["top_k"], body["repeat_penalty"]) == (0.7, 50, 1.3)


def test_penalties_look_at_the_whole_context() -> None:
    assert translated(repetition_penalty=1.2)["repeat_last_n"] == 64
    assert translated(presence_penalty=0.5)["repeat_last_n"] == 64
    assert "repeat_last_n" not in translated()


def test_every_length_may_be_forced() -> None:
    assert translated(max_tokens=5, min_tokens=5)["ignore_eos"] is True
    with pytest.raises(RequestRefused, match="min_tokens=3 only where it equals max_tokens"):
        translated(max_tokens=5, min_tokens=3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 2),
        ("echo", True),
        ("suffix", "x"),
        ("best_of", 3),
        ("stop_token_ids", [5]),
        ("skip_special_tokens", False),
        ("include_stop_str_in_output", True),
        ("zork", 1),
        ("max_tokens", 0),
        ("prompt", ["a", "b"]),
        ("prompt", []),
        ("prompt", [1, -2]),
    ],
)
def test_what_llama_cpp_would_ignore_is_refused(field: str, value: Any) -> None:
    with pytest.raises(RequestRefused, match=field):
        translated(**{field: value})


def test_null_and_values_that_change_nothing_are_taken() -> None:
    body = translated(n=1, echo=False, suffix=None, stop_token_ids=[], user="someone", logprobs=None)
    assert body.keys() == translated().keys()


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_every_field_of_the_gateway_is_known(path: str) -> None:
    for field in FIELDS[path]:
        try:
            asked: dict[str, Any] = {field: 1}
            translated(chat=path == CHAT, **asked)
        except RequestRefused as error:
            assert "does not know" not in error.message


def test_one_prompt_in_a_list_is_one_prompt() -> None:
    assert translated(prompt=[[1, 2]])["prompt"] == [1, 2]
    assert translated(prompt=["a"])["prompt"] == "a"
