"""Plain answers of engines, written with one call.

aiohttp's own response makes, checks and orders its headers anew; an engine's answer has them already.
"""

from http import HTTPStatus

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from serving.gateway.errors import BACKEND_HEADER, VERSION_HEADER
from serving.gateway.upstream import Answer

HOP_BY_HOP = {"connection", "keep-alive", "proxy-authenticate", "te", "trailer", "transfer-encoding", "upgrade"}
NOT_PASSED_ON = frozenset(HOP_BY_HOP | {"content-length", "server", VERSION_HEADER, BACKEND_HEADER})

Answerer = tuple[str, str]
"""Who answered: the version's served name, and its engine's kind."""

_DROPPED = frozenset(name.encode() for name in NOT_PASSED_ON)
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class PlainAnswer(web.StreamResponse):
    """The answer of an engine, for a client that speaks HTTP/1.1 and an answer that its socket takes at once."""

    def __init__(self, upstream: Answer, body: bytes, by: Answerer) -> None:
        super().__init__(status=upstream.status)
        self._upstream = upstream
        self._whole = body
        self._by = by
        self._written = False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Write all of it.

        Raises:
            ConnectionResetError: the client is gone.
        """
        if self._written:
            return request.writer
        self._written = True
        if request.transport is None:
            raise ConnectionResetError("the client is gone")
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive
        parts = [_STATUS_LINES.get(self.status) or b"HTTP/1.1 %d -\r\n" % self.status]
        for name, value in self._upstream.raw_headers:
            if name.lower() not in _DROPPED:
                parts += (name, b": ", value, b"\r\n")
        version, backend = self._by
        parts.append(f"{VERSION_HEADER}: {version}\r\n{BACKEND_HEADER}: {backend}\r\nServer: turnout\r\n".encode())
        if not self._keep_alive:
            parts.append(b"Connection: close\r\n")
        parts.append(b"Content-Length: %d\r\n\r\n" % len(self._whole))
        parts.append(self._whole)
        request.transport.write(b"".join(parts))
        return request.writer

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to write."""
