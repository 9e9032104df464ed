"""The gateway's listeners: sockets, and aiohttp's server with OpenAI's error objects for broken HTTP too."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from serving.gateway.errors import ApiError

_IDLE_S = 75.0
_BACKLOG = 2048
_LINGER_S = 2.0


class Server(web.Server):
    """A client that goes away ends its handler. Requests are made with the body limit of the settings. A connection
    without a request is closed after `idle_s` seconds."""

    def __init__(
        self,
        handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        max_body: int,
        idle_s: float = _IDLE_S,
    ) -> None:
        super().__init__(handle, request_factory=self._limited, handler_cancellation=True)
        self._max_body = max_body
        self._idle_s = idle_s

    def __call__(self) -> RequestHandler:
        return _Connection(
            self,
            loop=self._loop,
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=self._idle_s,
            lingering_time=_LINGER_S,
        )

    def _limited(self, message, payload, protocol, writer, task) -> web.BaseRequest:  # type: ignore[no-untyped-def]
        return web.BaseRequest(message, payload, protocol, writer, task, self._loop, client_max_size=self._max_body)


class _Connection(RequestHandler):
    __slots__ = ("_unused",)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        # aiohttp's own limit begins after the first request: one that never comes would hold its socket for ever.
        self._unused = self._loop.call_later(self._keepalive_timeout, self._close_unused)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._unused.cancel()
        super().connection_lost(exc)

    def _close_unused(self) -> None:
        if self._waiter is not None and not self._keepalive:
            self.force_close()

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """A traceback in the log, but not for a body that cannot be read: its client was told."""
        if not isinstance(kw.get("exc_info"), web.RequestPayloadError):
            super().log_exception(*args, **kw)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What aiohttp's parser refuses: bad request lines, headers over the limits."""
        if request.writer.output_size > 0:
            raise ConnectionError("part of the answer is sent already")
        return ApiError(status, f"the request is not valid HTTP: {message or exc}"[:300], close=True).response()


def open_socket(host: str, port: int, *, shared: bool) -> socket.socket:
    """A bound socket; with `shared`, other processes may bind the same port and the kernel spreads the connections."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind, protocol)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(address)
    return bound


async def listen(server: Server, bound: socket.socket) -> asyncio.Server:
    return await asyncio.get_running_loop().create_server(server, sock=bound, backlog=_BACKLOG)
