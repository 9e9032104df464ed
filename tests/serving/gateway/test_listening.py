"""Connections that never become a request, and bodies that cannot be read."""

import asyncio
import logging
import time

import pytest
from aiohttp import web

from serving.config import GatewayConfig
from serving.gateway.listening import Server, listen, open_socket
from serving.gateway.reading import read_body

IDLE_S = 0.3
SLOW_S = 3 * IDLE_S


async def exchange(*sent: bytes) -> tuple[bytes, float]:
    """What a listener whose handler takes a while says to bytes on one connection, and after how many seconds it
    closes that."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        try:
            await read_body(request, GatewayConfig())
        except Exception as error:
            return web.Response(status=400, text=str(error))
        await asyncio.sleep(SLOW_S)
        return web.Response(text="ok")

    server = Server(handle, 1024, IDLE_S)
    bound = open_socket("127.0.0.1", 0, shared=False)
    listener = await listen(server, bound)
    reader, writer = await asyncio.open_connection(*bound.getsockname())
    began = time.monotonic()
    for each in sent:
        writer.write(each)
    said = await asyncio.wait_for(reader.read(), 10)
    seconds = time.monotonic() - began
    writer.close()
    listener.close()
    await server.shutdown(1)
    return said, seconds


@pytest.mark.parametrize("sent", [b"", b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Slow"], ids=["none", "half"])
def test_a_connection_without_a_request_is_closed(sent: bytes) -> None:
    said, seconds = asyncio.run(exchange(sent))
    assert said == b"" and IDLE_S * 0.9 < seconds < SLOW_S


def test_a_slow_answer_is_none_and_idle_time_begins_after_it() -> None:
    said, seconds = asyncio.run(exchange(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
    assert said.endswith(b"ok") and seconds > SLOW_S + IDLE_S * 0.9


def test_a_body_that_cannot_be_read_leaves_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n"
    with caplog.at_level(logging.INFO):
        said, _ = asyncio.run(exchange(head, b"junk"))
    assert said.startswith(b"HTTP/1.1 400") and not [each for each in caplog.records if each.exc_info]
