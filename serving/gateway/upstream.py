"""Connections to one engine, kept open between requests.

aiohttp's parser and protocol without its client session: cookies, redirects, proxies and timers that no request to an
engine needs were a sixth of the gateway's time.
"""

import asyncio
import time
from collections.abc import Mapping

from aiohttp import ServerDisconnectedError, StreamReader
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDictProxy
from yarl import URL

_CONNECT_S = 5.0
# vLLM's server closes a connection that was idle for 5 s; the gateway lets go first.
_KEPT_S = 3.0


class Unreachable(Exception):
    """No connection to the engine can be made: it has not got the request."""


class Connection(ResponseHandler):
    """One connection. `idle_since` is by the monotonic clock."""

    idle_since = 0.0

    def expire(self) -> None:
        """Fail whoever waits for the answer, which has taken too long as a whole."""
        error = TimeoutError("the whole answer took too long")
        self.set_exception(error)
        if self._payload is not None:
            self._payload.set_exception(error)


class Answer:
    """An engine's answer whose body is still to be read from `content`. The connection is free again at its end."""

    __slots__ = ("_connection", "_deadline", "_pool", "content", "headers", "raw_headers", "status")

    def __init__(self, pool: "Pool", connection: Connection, deadline: asyncio.TimerHandle) -> None:
        self._pool = pool
        self._connection: Connection | None = connection
        self._deadline = deadline
        self.status = 0
        self.headers: CIMultiDictProxy[str]
        self.raw_headers: tuple[tuple[bytes, bytes], ...] = ()
        self.content: StreamReader

    async def start(self) -> None:
        """Wait for the status and the headers."""
        assert self._connection is not None
        while True:
            message, content = await self._connection.read()
            if message.code >= 200:
                break
        self.status, self.headers, self.content = message.code, message.headers, content
        self.raw_headers = message.raw_headers
        content.on_eof(self._release)

    def close(self) -> None:
        """Let go of the answer; an engine that is not done with it stops working for it."""
        self._deadline.cancel()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _release(self) -> None:
        self._deadline.cancel()
        if self._connection is not None:
            self._pool.keep(self._connection)
            self._connection = None


class Pool:
    """The connections to the engine at `url`."""

    def __init__(self, url: str) -> None:
        parsed = URL(url)
        self._host, self._port = parsed.host or "", parsed.port or 80
        self._ssl = True if parsed.scheme == "https" else None
        self._prefix = parsed.raw_path.rstrip("/")
        self._host_header = parsed.raw_authority
        self._idle: list[Connection] = []
        self._closed = False

    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, *, limit_s: float, idle_s: float | None = None
    ) -> Answer:
        """Send a request and wait for the head of its answer.

        Args:
            limit_s: for the whole answer, its body included.
            idle_s: for each wait for more of it.

        Raises:
            Unreachable: nothing was sent.
            TimeoutError: one of the limits passed.
            aiohttp.ClientError: the connection broke.
            aiohttp.http.HttpProcessingError: the answer is not HTTP.
        """
        connection = self._take()
        if connection is None:  # An empty queue of answers, which a connection is, counts as false.
            connection = await self._connect()
        connection.set_response_params(read_until_eof=True, auto_decompress=False, read_timeout=idle_s)
        deadline = asyncio.get_running_loop().call_later(limit_s, connection.expire)
        answer = Answer(self, connection, deadline)
        try:
            fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
            head = (
                f"POST {self._prefix}{path} HTTP/1.1\r\nHost: {self._host_header}\r\n"
                f"Content-Length: {len(body)}\r\n{fields}\r\n"
            )
            if connection.transport is None:
                raise ServerDisconnectedError
            connection.transport.write(head.encode("utf-8", "surrogateescape") + body)
            connection.start_timeout()
            await answer.start()
        except BaseException:
            answer.close()
            raise
        return answer

    def keep(self, connection: Connection) -> None:
        """Take back a connection whose answer was read to its end."""
        if self._closed or connection.should_close:
            connection.close()
        else:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)

    def close_idle(self) -> None:
        """Close those that the engine is about to close."""
        limit = time.monotonic() - _KEPT_S
        old = [connection for connection in self._idle if connection.idle_since <= limit or self._closed]
        self._idle = [connection for connection in self._idle if connection not in old]
        for connection in old:
            connection.close()

    def close(self) -> None:
        self._closed = True
        self.close_idle()

    def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_connected() and connection.idle_since > time.monotonic() - _KEPT_S:
                return connection
            connection.close()
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_S):
                made = await loop.create_connection(lambda: Connection(loop), self._host, self._port, ssl=self._ssl)
        except OSError as error:
            what = f"no answer in {_CONNECT_S:g} s" if isinstance(error, TimeoutError) else str(error)
            raise Unreachable(f"cannot connect to {self._host}:{self._port}: {what}") from error
        return made[1]
