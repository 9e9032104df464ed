"""What clients are told when a request fails: OpenAI's error objects."""

from collections.abc import Mapping

import orjson
from aiohttp import web

VERSION_HEADER = "x-turnout-version"
BACKEND_HEADER = "x-turnout-backend"
RETRY_SOON = {"Retry-After": "1"}

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}


class ApiError(Exception):
    """An answer other than the engine's. `kind` is the word that the error is counted under."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "client",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.code = code
        self.headers = headers
        self.close = close

    def body(self) -> bytes:
        kind = _TYPES.get(self.status, "server_error")
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return orjson.dumps({"error": error})

    def response(self, version: str | None = None) -> web.Response:
        headers = {**(self.headers or {}), "Content-Type": "application/json", "Server": "turnout"}
        if version:
            headers[VERSION_HEADER] = version
        response = web.Response(status=self.status, body=self.body(), headers=headers)
        if self.close:
            response.force_close()
        return response


def unavailable(message: str) -> ApiError:
    return ApiError(503, message, kind="no_engine", headers=RETRY_SOON)
