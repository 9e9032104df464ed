"""Sends a request to an engine that can answer it, and to another one where the first cannot be reached."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import aiohttp
from aiohttp import web
from aiohttp.http import HttpProcessingError

from serving.gateway.errors import ApiError, unavailable
from serving.gateway.health import eject, fault, poke_reconciler
from serving.gateway.plain import Answerer
from serving.gateway.relay import Events, Relayed, pass_on, stream
from serving.gateway.replicas import ReplicaPool, ReplicaState
from serving.gateway.state import State
from serving.gateway.table import Arm
from serving.gateway.upstream import Answer, Unreachable
from serving.gateway.usage import EventFilter

# A request that breaks the engine that runs it is not to break them all.
_MAX_RESETS = 2


class Translation(Protocol):
    """Makes answers of another form than the engine's."""

    async def whole(self, client: web.BaseRequest, body: bytes, by: Answerer, limit_s: float) -> Relayed:
        """A plain answer, sent; raises ApiError, 502, where `body` is not one."""

    def events(self, by: Answerer) -> Events:
        """What a streamed answer passes through."""


@dataclass(slots=True)
class Call:
    """A request on its way to `arm`, in the first of `pools` that can answer.

    `body` is what the engine gets; `keep_usage`: the client wants that chunk too. Answers pass unchanged where there
    is no `translation`.
    """

    client: web.BaseRequest
    path: str
    arm: Arm
    pools: Sequence[ReplicaPool]
    body: bytes
    headers: Mapping[str, str]
    streams: bool
    keep_usage: bool
    translation: Translation | None = None


class NotLoaded(Exception):
    """The engine does not have a version that the routes call ready there."""


async def forward(state: State, call: Call) -> Relayed:
    """The answer of the first engine that gives one.

    Raises:
        ApiError: 502, 503, 504: none did.
        ConnectionError: the client is gone, or too slow.
    """
    arm, avoid, resets = call.arm, None, 0
    while (replica := state.replicas.choose(call.pools, arm.served_name, avoid)) and resets < _MAX_RESETS:
        entry, epoch = replica.begin(arm.served_name), replica.epoch
        try:
            try:
                upstream, body = await _ask(state, call, replica)
            except NotLoaded:
                replica.forget(arm.served_name, epoch)
                poke_reconciler(state)
                if epoch != replica.epoch:
                    resets += 1  # The routes changed meanwhile: once more is worth it, forever is not.
                continue
            except Unreachable as error:
                eject(state, replica, str(error))
                continue
            except TimeoutError:
                raise _too_slow(state, call) from None
            except HttpProcessingError as error:
                fault(state, replica, arm)
                raise ApiError(502, f"the engine's answer is not HTTP: {error.message}", kind="bad_answer") from None
            except aiohttp.ClientError as error:
                # An engine closes idle connections: a request may meet that on its way.
                fault(state, replica, arm, broken=str(error) or type(error).__name__)
                avoid, resets = replica, resets + 1
                continue
            return await _answer(state, call, replica, upstream, body)
        finally:
            replica.end(entry)
    raise unavailable(f"no engine answers for {arm.served_name} at the moment")


async def _ask(state: State, call: Call, replica: ReplicaState) -> tuple[Answer, bytes]:
    """The engine's answer with its whole body, or the first bytes of its stream."""
    config = state.config
    # An answer that does not stream comes in one piece, when the engine has all of it.
    idle_s = config.idle_timeout_s if call.streams else None
    upstream = await replica.pool.post(
        call.path, call.headers, call.body, limit_s=config.request_timeout_s, idle_s=idle_s
    )
    try:
        if not is_stream(call, upstream):
            body = await upstream.content.read()
            if upstream.status == 404 and call.arm.is_adapter:
                raise NotLoaded
            return upstream, body
        first = await upstream.content.readany()
        if not first:
            raise aiohttp.ServerDisconnectedError("the stream ended before it began")
        return upstream, first
    except BaseException:
        upstream.close()
        raise


async def _answer(state: State, call: Call, replica: ReplicaState, upstream: Answer, body: bytes) -> Relayed:
    if upstream.status >= 500:
        fault(state, replica, call.arm)
    else:
        replica.faults = 0
    by, limit_s, translation = (call.arm.served_name, replica.kind), state.config.client_timeout_s, call.translation
    if not is_stream(call, upstream):
        if translation and upstream.status == 200:
            return await translation.whole(call.client, body, by, limit_s)
        return await pass_on(call.client, upstream, body, by, limit_s)
    events = translation.events(by) if translation else EventFilter(keep_usage=call.keep_usage)
    try:
        return await stream(call.client, upstream, body, by, limit_s, events)
    finally:
        upstream.close()


def is_stream(call: Call, upstream: Answer) -> bool:
    return call.streams and upstream.headers.get("Content-Type", "").startswith("text/event-stream")


def _too_slow(state: State, call: Call) -> ApiError:
    config = state.config
    limit_s = min(config.request_timeout_s, config.idle_timeout_s if call.streams else config.request_timeout_s)
    return ApiError(504, f"the engine began no answer in {limit_s:g} s", kind="timeout")
