"""What a request to /generate may ask for, and the chat request that it becomes.

The prompt is text, and goes to the engine as the one message of a user: Turnout trains adapters through the base's chat
template, so a prompt without it would be answered as if there were no adapter. Where `max_tokens` is not given, an
answer is bounded by the engine's context alone.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from serving.config import GatewayConfig
from serving.gateway.access import visible
from serving.gateway.backends import KINDS, Choice, Wanted, choose_backend, count_words
from serving.gateway.errors import ApiError
from serving.gateway.fields import Check, between, of_type, read_object, require, wrong
from serving.gateway.loads import refresh
from serving.gateway.pools import look_at, only
from serving.gateway.replicas import ReplicaPool
from serving.gateway.sampling import Sampling, choose_sampling
from serving.gateway.state import State
from serving.gateway.table import Arm
from serving.keys import ClientKey

GENERATE = "/generate"
GENERATE_STREAM = "/generate/stream"
PATHS = (GENERATE, GENERATE_STREAM)

AUTO = "auto"
_TO_THE_ENGINE = ("max_tokens", "stop", "stream")
_MAX_STOPS = 16
_MAX_GRAMMAR = 2**16
_MAX_TASK = 64
UNCHOSEN = Choice("", "no engine seemed well when it was to be chosen")


@dataclass(slots=True)
class Generation:
    """A checked request. `fields` are the chat request for an engine; its `model` is missing where the client named no
    adapter. `began` is by the monotonic clock. `choice` names no kind before one is chosen, and where none could be."""

    fields: dict[str, Any]
    backend: str
    wanted: Wanted
    sampling: Sampling
    began: float
    choice: Choice = UNCHOSEN


def read_generate(path: str, raw: bytes, config: GatewayConfig) -> Generation:
    """The request in `raw` to one of `PATHS`.

    Raises:
        ApiError: 400, naming the field.
    """
    began = time.monotonic()
    request = read_object(path, raw, _FIELDS, _CHECKS)
    require(request, "prompt")
    if path == GENERATE_STREAM and request.setdefault("stream", True) is False:
        raise wrong(request, "stream", f"true or absent on {path}; {GENERATE} answers in one piece")
    if "grammar" in request and "json_schema" in request:
        raise ApiError(400, "grammar and json_schema are both given: it must be one of them", param="json_schema")
    sampling = choose_sampling(config.sampling, request)
    fields = {"messages": [{"role": "user", "content": request["prompt"]}], **sampling.values}
    fields |= {name: request[name] for name in _TO_THE_ENGINE if name in request}
    if "grammar" in request:
        # Both kinds of engine take this form: vLLM's own, from which llama.cpp's front makes its `grammar`.
        fields["structured_outputs"] = {"grammar": request["grammar"]}
    if "json_schema" in request:
        fields["structured_outputs"] = {"json": request["json_schema"]}
    if "adapter" in request:
        fields["model"] = request["adapter"]
    wanted = Wanted(count_words(request["prompt"]), request.get("max_tokens"), request.get("urgency", "normal"))
    return Generation(fields, request.get("backend", AUTO), wanted, sampling, began)


def default_adapter(state: State, key: ClientKey | None) -> str:
    """What answers a client that names no adapter: the only public name that it may call, else the only base.

    Raises:
        ApiError: 400, there is more than one, or none.
    """
    models = state.table.models
    mine = visible(key, models)
    names = [name for name in mine if models[name].public]
    bases = [name for name in mine if models[name].parent == name]
    for choices in (names, bases):
        if len(choices) == 1:
            return choices[0]
    there = ", ".join([*names, *bases]) or "none"
    message = f"the field 'adapter' is missing, and there is not just one to choose: give one of {there}"
    raise ApiError(400, message, param="adapter", code="missing_required_parameter")


async def choose_pools(state: State, arm: Arm, generation: Generation) -> Sequence[ReplicaPool]:
    """The pools to ask, in order: the one of the backend that was asked for alone, or all by the rules of `auto`.

    Raises:
        ApiError: 503, no engine of the asked kind can answer.
    """
    if generation.backend != AUTO:
        generation.choice = Choice(generation.backend, f"asked for: backend {generation.backend}")
        return only(generation.backend, arm)
    if len(arm.pools) > 1:
        await refresh(state, arm.replicas)
    seen = look_at(arm.pools, arm.served_name, state.config.max_queued)
    choice = choose_backend(generation.wanted, seen, state.config.routing)
    if choice is None:
        return arm.pools
    generation.choice = choice
    return sorted(arm.pools, key=lambda pool: pool[0].kind != choice.kind)


def _number(low: float, high: float, *, above: bool = False) -> Check:
    """`above`: the value must be over `low`, else at least that."""
    wanted = f"a number {'above' if above else 'from'} {low:g} to {high:g}"

    def check(request: dict[str, Any], field: str) -> None:
        value = request[field]
        if type(value) not in (int, float) or value > high or value < low or (above and value == low):
            raise wrong(request, field, wanted)

    return check


def _text(longest: int | None = None) -> Check:
    wanted = "a string that is not empty" + (f", of at most {longest} characters" if longest else "")

    def check(request: dict[str, Any], field: str) -> None:
        value = request[field]
        if type(value) is not str or not value or (longest and len(value) > longest):
            raise wrong(request, field, wanted)

    return check


def _one_of(*values: str) -> Check:
    def check(request: dict[str, Any], field: str) -> None:
        if request[field] not in values:
            raise wrong(request, field, f"one of {', '.join(values)}")

    return check


def _stops(request: dict[str, Any], field: str) -> None:
    value = request[field]
    texts = value if type(value) is list else [value]
    if not 1 <= len(texts) <= _MAX_STOPS or not all(type(text) is str and text for text in texts):
        raise wrong(request, field, f"a string, or a list of 1 to {_MAX_STOPS} strings, none of them empty")


_CHECKS: dict[str, Check] = {
    "prompt": _text(),
    "max_tokens": between(1, None),
    "temperature": _number(0, 2),
    "top_p": _number(0, 1, above=True),
    "top_k": between(0, 1_000_000),
    "repetition_penalty": _number(0, 2, above=True),
    "stop": _stops,
    "grammar": _text(_MAX_GRAMMAR),
    "json_schema": of_type(dict, "an object"),
    "stream": of_type(bool, "true or false"),
    "backend": _one_of(*KINDS, AUTO),
    "urgency": _one_of("high", "normal", "low"),
    "task_type": _text(_MAX_TASK),
    "adapter": _text(),
}
_FIELDS = frozenset(_CHECKS)
