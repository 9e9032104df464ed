"""Streamed answers through a gateway: when the first piece comes, how many pieces a second, and whether all arrive."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp
import uvloop

from gateways.contenders import Contender
from gateways.load import body

_END_BYTES = 32


@dataclass(frozen=True)
class StreamFigures:
    """`first_ms` is the median from sending a request to its first piece of text; `failed` streams had another status
    than 200, broke, or did not end with [DONE]."""

    first_ms: float
    chunks_per_s: float
    streams: int
    failed: int


@dataclass
class _Counts:
    first_s: list[float] = field(default_factory=list)
    chunks: int = 0
    streams: int = 0
    failed: int = 0


def measure(contender: Contender, clients: int, seconds: float) -> StreamFigures:
    counts = _Counts()
    begin = time.perf_counter()
    uvloop.run(_load(contender, clients, begin + seconds, counts))
    elapsed = time.perf_counter() - begin
    first_ms = statistics.median(counts.first_s) * 1e3 if counts.first_s else float("nan")
    return StreamFigures(first_ms, counts.chunks / elapsed, counts.streams, counts.failed)


async def _load(contender: Contender, clients: int, until: float, counts: _Counts) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(_client(session, contender, until, counts) for _ in range(clients)))


async def _client(session: aiohttp.ClientSession, contender: Contender, until: float, counts: _Counts) -> None:
    request = body(contender.model, stream=True)
    while time.perf_counter() < until:
        try:
            ended = await _one_stream(session, contender.url, request, counts)
        except (aiohttp.ClientError, TimeoutError):
            ended = False
        counts.streams += 1
        counts.failed += not ended


async def _one_stream(session: aiohttp.ClientSession, url: str, request: bytes, counts: _Counts) -> bool:
    headers = {"Content-Type": "application/json"}
    begin, first, last = time.perf_counter(), True, b""
    async with session.post(f"{url}/v1/chat/completions", data=request, headers=headers) as answer:
        if answer.status != 200:
            return False
        async for piece in answer.content.iter_any():
            if first:
                counts.first_s.append(time.perf_counter() - begin)
                first = False
            counts.chunks += piece.count(b"data:")
            last = last[-_END_BYTES:] + piece
    return b"data: [DONE]" in last[-_END_BYTES:]


def median(rounds: Sequence[StreamFigures]) -> StreamFigures:
    return StreamFigures(
        statistics.median(each.first_ms for each in rounds),
        statistics.median(each.chunks_per_s for each in rounds),
        sum(each.streams for each in rounds),
        sum(each.failed for each in rounds),
    )
