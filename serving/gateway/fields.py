"""The fields that a request may have, and what of them the gateway itself reads."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from serving.gateway.errors import ApiError

Check = Callable[[dict[str, Any], str], None]
"""Raises ApiError, 400, for a field of a request that has no value that it may have."""

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"

MAX_CHOICES = 16
MAX_LOGPROBS = 20

_BOTH = """
    model frequency_penalty logit_bias logprobs max_tokens n presence_penalty response_format seed stop stream
    stream_options temperature top_p user safety_identifier

    top_k min_p repetition_penalty min_tokens ignore_eos stop_token_ids skip_special_tokens
    spaces_between_special_tokens include_stop_str_in_output structured_outputs add_special_tokens return_token_ids
    return_tokens_as_token_ids
"""
_CHAT_ONLY = """
    messages max_completion_tokens top_logprobs tools tool_choice parallel_tool_calls reasoning_effort store metadata
    service_tier prompt_cache_key

    continue_final_message add_generation_prompt chat_template_kwargs
"""
_COMPLETIONS_ONLY = " prompt suffix echo best_of"

FIELDS = {
    CHAT: frozenset((_BOTH + _CHAT_ONLY).split()),
    COMPLETIONS: frozenset((_BOTH + _COMPLETIONS_ONLY).split()),
}
"""By path: OpenAI's documented fields, then vLLM's for sampling and templates."""

# Fields of OpenAI's hosted service that say nothing to an engine.
_KEPT_BACK = ("store", "metadata", "service_tier", "prompt_cache_key", "safety_identifier", "best_of")


def read_request(path: str, raw: bytes) -> dict[str, Any]:
    """The checked fields of a request to `path`; those that are null count as absent.

    Raises:
        ApiError: 400, naming the field.
    """
    request = read_object(path, raw, FIELDS[path], _CHECKS)
    require(request, "model")
    if request.get("echo") and "logprobs" in request:
        message = "'echo' together with 'logprobs' is not served: scoring prompts can stop an engine that has traffic"
        raise ApiError(400, message, param="echo", code="unsupported_parameter")
    return request


def read_object(path: str, raw: bytes, allowed: frozenset[str], checks: Mapping[str, Check]) -> dict[str, Any]:
    """The JSON object in `raw`, with no field that is not allowed and none that its check refuses. Null is absent.

    Raises:
        ApiError: 400, naming the field.
    """
    try:
        request = orjson.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not valid JSON: {error}") from None
    if type(request) is not dict:
        raise ApiError(400, f"the body is a JSON {_kind(request)}, not an object")
    if None in request.values():
        request = {field: value for field, value in request.items() if value is not None}
    if not request.keys() <= allowed:
        unknown = sorted(request.keys() - allowed)
        message = f"{path} takes no field {unknown[0]!r:.100}; it takes {', '.join(sorted(allowed))}"
        raise ApiError(400, message, param=unknown[0][:100], code="unknown_parameter")
    for field, check in checks.items():
        if field in request:
            check(request, field)
    return request


def require(request: dict[str, Any], field: str) -> None:
    if field not in request:
        raise ApiError(400, f"the field {field!r} is missing", param=field, code="missing_required_parameter")


def encode_request(request: dict[str, Any], served_name: str, *, ask_usage: bool) -> bytes:
    """The body for an engine.

    Raises:
        ApiError: 400, the request is nested deeper than can be written.
    """
    body = {**request, "model": served_name}
    for field in _KEPT_BACK:
        body.pop(field, None)
    if ask_usage:
        body["stream_options"] = {"include_usage": True}
    try:
        return orjson.dumps(body)
    except (TypeError, RecursionError):
        raise ApiError(400, "the body is nested too deeply") from None


def wants_usage(request: dict[str, Any]) -> bool:
    """Whether a streaming client asked for the usage chunk itself."""
    options = request.get("stream_options")
    return options is not None and options.get("include_usage") is True


def wrong(request: dict[str, Any], field: str, wanted: str) -> ApiError:
    value = request[field]
    shown = f"{value!r:.60}" if isinstance(value, int | float | str) else f"a JSON {_kind(value)}"
    return ApiError(400, f"{field} is {shown}: it must be {wanted}", param=field, code="invalid_value")


def _kind(value: Any) -> str:
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return kinds.get(type(value), "null")


def of_type(kind: type, wanted: str) -> Check:
    def check(request: dict[str, Any], field: str) -> None:
        if type(request[field]) is not kind:
            raise wrong(request, field, wanted)

    return check


def between(low: int, high: int | None, *, or_bool: bool = False) -> Check:
    wanted = f"a whole number from {low}" + (f" to {high}" if high is not None else " up")

    def check(request: dict[str, Any], field: str) -> None:
        value = request[field]
        if or_bool and type(value) is bool:
            return
        if type(value) is not int or value < low or (high is not None and value > high):
            raise wrong(request, field, wanted)

    return check


def _one_choice(request: dict[str, Any], field: str) -> None:
    """vLLM has no best_of any more: what asks for more candidates than answers cannot be served."""
    between(1, MAX_CHOICES)(request, field)
    if request[field] != request.get("n", 1):
        raise wrong(request, field, "equal to n: engines make no more candidates than answers")


_CHECKS: dict[str, Check] = {
    "model": of_type(str, "a string"),
    "stream": of_type(bool, "true or false"),
    "stream_options": of_type(dict, "an object"),
    "echo": of_type(bool, "true or false"),
    "user": of_type(str, "a string"),
    "safety_identifier": of_type(str, "a string"),
    "n": between(1, MAX_CHOICES),
    "best_of": _one_choice,
    "max_tokens": between(0, None),
    "max_completion_tokens": between(0, None),
    "min_tokens": between(0, None),
    "logprobs": between(0, MAX_LOGPROBS, or_bool=True),
    "top_logprobs": between(0, MAX_LOGPROBS),
}
