"""Answers requests for completions: who asks, what for, which version answers, and what it counted."""

import asyncio
import difflib
import random
import time
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from serving.gateway.access import may_call, visible
from serving.gateway.errors import RETRY_SOON, ApiError
from serving.gateway.fields import CHAT, FIELDS, encode_request, read_request, wants_usage
from serving.gateway.forward import Call, forward
from serving.gateway.generate import choose_pools, default_adapter, read_generate
from serving.gateway.generated import Generated
from serving.gateway.pools import open_pools
from serving.gateway.reading import read_body
from serving.gateway.relay import Relayed, SlowClient
from serving.gateway.replicas import ReplicaPool
from serving.gateway.shadow import copy_to_shadows
from serving.gateway.state import State
from serving.gateway.table import Arm, Model
from serving.keys import ClientKey

KEY_HEADER = "x-turnout-key"
_PASSED_ON = ("x-request-id", "traceparent", "tracestate")
_CLIENT_GONE = 499
_NAMES_SHOWN = 20


async def complete(state: State, request: web.BaseRequest, path: str) -> web.StreamResponse:
    """The answer to a request to `path`, or an error object that names the version if one was chosen."""
    began = time.monotonic()
    arm = None
    try:
        if state.drained:
            raise ApiError(503, "this gateway takes no requests at the moment", kind="drained", headers=RETRY_SOON)
        key = state.access.identify(request.headers.get("Authorization"))
        raw, generation = await read_body(request, state.config), None
        if path in FIELDS:
            fields = read_request(path, raw)
            model = _find(state, key, fields["model"], "model")
        else:
            generation = read_generate(path, raw, state.config)
            fields, path = generation.fields, CHAT
            model = _find(state, key, fields.get("model") or default_adapter(state, key), "adapter")
        arm = model.choose(_sticky_key(request, model, fields, key))
        pools = await choose_pools(state, arm, generation) if generation else arm.pools
        call = _prepare(request, path, arm, fields, open_pools(pools, arm, state.config.max_queued))
        if generation:
            call.translation = Generated(generation)
        if model.shadows:
            # Later than the request itself, which has a replica by then.
            asyncio.get_running_loop().call_soon(copy_to_shadows, state, model, fields, call)
        relayed = await forward(state, call)
    except ApiError as error:
        _count_error(state, arm, error.status, error.kind, began)
        return error.response(arm.served_name if arm else None)
    except (ConnectionError, asyncio.CancelledError) as error:
        _count_error(state, arm, _CLIENT_GONE, "slow_client" if isinstance(error, SlowClient) else "client_gone", began)
        raise
    _count(arm, relayed, key.id if key else "", began)
    return relayed.response


def _find(state: State, key: ClientKey | None, name: str, param: str) -> Model:
    model = state.table.models.get(name)
    if model is not None and may_call(key, name):
        return model
    known = visible(key, state.table.models)
    near = difflib.get_close_matches(name[:100], known, n=_NAMES_SHOWN, cutoff=0.0)
    more = ", …" if len(known) > len(near) else ""
    message = f"The model {name!r:.100} does not exist. Known: {', '.join(near) or 'none'}{more}"
    raise ApiError(404, message, param=param, code="model_not_found")


def _sticky_key(request: web.BaseRequest, model: Model, fields: dict[str, Any], key: ClientKey | None) -> str:
    """What keeps a client on its arm. Empty text is no key: it would put all who send it on one arm."""
    if not model.weights:
        return ""
    given = request.headers.get(KEY_HEADER) or fields.get("user") or fields.get("safety_identifier")
    if not given and model.sticky_by_key and key:
        given = key.id
    return given or str(random.getrandbits(64))


def _prepare(
    request: web.BaseRequest, path: str, arm: Arm, fields: dict[str, Any], pools: Sequence[ReplicaPool]
) -> Call:
    streams = fields.get("stream", False)
    keep_usage = streams and wants_usage(fields)
    headers = {"Content-Type": "application/json"}
    for name in _PASSED_ON:
        if name in request.headers:
            headers[name] = request.headers[name]
    body = encode_request(fields, arm.served_name, ask_usage=streams and not keep_usage)
    return Call(request, path, arm, pools, body, headers, streams, keep_usage)


def _count(arm: Arm, relayed: Relayed, key: str, began: float) -> None:
    seconds = time.monotonic() - began
    meter, status = arm.meter, relayed.response.status
    meter.count(status)
    meter.seconds.observe(seconds)
    if relayed.first_at:
        meter.first_token.observe(relayed.first_at - began)
    if relayed.usage:
        meter.count_tokens(key, *relayed.usage)
    failed = status >= 500 or bool(relayed.broken)
    if failed:
        meter.count_error("stream" if relayed.broken else "engine")
    if arm.counts:
        arm.counts.add(seconds, failed)


def _count_error(state: State, arm: Arm | None, status: int, kind: str, began: float) -> None:
    meter = arm.meter if arm else state.meters.of("", "")
    meter.count(status)
    meter.count_error(kind)
    if arm and arm.counts and status >= 500:
        arm.counts.add(time.monotonic() - began, failed=True)
