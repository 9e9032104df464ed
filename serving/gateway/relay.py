"""Passes an engine's answer on to the client, byte for byte: whole, or as it streams."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import aiohttp
from aiohttp import HttpVersion11, web
from multidict import CIMultiDict

from serving.gateway.errors import BACKEND_HEADER, VERSION_HEADER
from serving.gateway.plain import NOT_PASSED_ON, Answerer, PlainAnswer
from serving.gateway.upstream import Answer
from serving.gateway.usage import find_usage

# What the socket takes without the client reading any of it.
_LARGE = 2**16


class SlowClient(ConnectionError):
    """The client took nothing of its answer for too long; its connection is gone."""


class Events(Protocol):
    """What becomes of an engine's stream on its way to the client.

    `headers` go to the client besides the engine's. `done`: its end came. `failed`: the engine reported an error.
    `usage` are prompt and completion tokens.
    """

    headers: Mapping[str, str]
    usage: tuple[int, int] | None
    done: bool
    failed: bool

    def feed(self, chunk: bytes) -> bytes:
        """What is to be sent now."""

    def rest(self) -> bytes:
        """What is to be sent when the stream has ended."""

    def broken(self, message: str) -> bytes:
        """What tells the client that there will be no more."""


@dataclass(slots=True)
class Relayed:
    """An answer on its way: `broken` says why a stream ended early. `first_at` is when its first bytes came, by
    the monotonic clock, 0 for a plain one."""

    response: web.StreamResponse
    usage: tuple[int, int] | None = None
    broken: str = ""
    first_at: float = 0.0


async def pass_on(client: web.BaseRequest, upstream: Answer, body: bytes, by: Answerer, limit_s: float) -> Relayed:
    """A plain answer. The client has `limit_s` seconds to take a large one."""
    usage = find_usage(body) if upstream.status == 200 else None
    if len(body) <= _LARGE and client.version == HttpVersion11:
        return Relayed(PlainAnswer(upstream, body, by), usage)
    response = web.Response(status=upstream.status, body=body, headers=_headers(upstream, by))
    await send(client, response, limit_s)
    return Relayed(response, usage)


async def send(client: web.BaseRequest, response: web.StreamResponse, limit_s: float) -> None:
    """Send all of an answer.

    Raises:
        SlowClient: the client did not take it in `limit_s` seconds.
    """
    try:
        async with asyncio.timeout(limit_s):
            await response.prepare(client)
            await response.write_eof()
    except TimeoutError:
        raise _abandon(client, limit_s) from None


async def stream(
    client: web.BaseRequest,
    upstream: Answer,
    first: bytes,
    by: Answerer,
    limit_s: float,
    events: Events,
) -> Relayed:
    """Server-sent events, from the `first` bytes on; a stream that breaks ends with an error and without `[DONE]`."""
    headers = _headers(upstream, by)
    headers.update(events.headers)
    relayed = Relayed(web.StreamResponse(status=upstream.status, headers=headers))
    relayed.first_at = time.monotonic()
    await relayed.response.prepare(client)
    content, chunk = upstream.content, first
    while chunk:
        if passed := events.feed(chunk):
            await _write(client, passed, limit_s)
        try:
            chunk = await content.readany()
        except TimeoutError:
            relayed.broken = "the engine's answer took too long"
            break
        except aiohttp.ClientError as error:
            relayed.broken = f"the connection to the engine broke: {type(error).__name__}"
            break
    relayed.usage = events.usage
    if not relayed.broken:
        if rest := events.rest():
            await _write(client, rest, limit_s)
        if not events.done and b"[DONE]" not in rest:
            relayed.broken = "the engine ended the stream early"
    if relayed.broken:
        upstream.close()
        await _write(client, events.broken(relayed.broken), limit_s)
        relayed.response.force_close()
    elif events.failed:
        relayed.broken = "the engine reported an error"
    return relayed


async def _write(client: web.BaseRequest, data: bytes, limit_s: float) -> None:
    """Send `data`, and wait while the client is behind.

    The writer's own waiting is no use: it begins with a write that cannot be told beforehand, and has no limit.
    """
    await client.writer.write(data, drain=False)  # type: ignore[call-arg]
    if client.protocol.writing_paused:
        try:
            async with asyncio.timeout(limit_s):
                await client.writer.drain()
        except TimeoutError:
            raise _abandon(client, limit_s) from None


def _abandon(client: web.BaseRequest, limit_s: float) -> SlowClient:
    if client.transport is not None:
        client.transport.abort()  # Closing would wait for the client to take the rest.
    return SlowClient(f"the client took nothing for {limit_s:g} s")


def _headers(upstream: Answer, by: Answerer) -> CIMultiDict[str]:
    version, backend = by
    headers = CIMultiDict([(VERSION_HEADER, version), (BACKEND_HEADER, backend), ("Server", "turnout")])
    for name, value in upstream.headers.items():
        if name.lower() not in NOT_PASSED_ON:
            headers[name] = value
    return headers
