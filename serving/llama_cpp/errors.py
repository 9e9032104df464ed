"""The errors that clients of the engine see, in OpenAI's shape."""

from typing import Any

from aiohttp import web


class RequestRefused(Exception):
    """What is wrong with a request, and the HTTP status that says so."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


def error_response(message: str, status: int) -> web.Response:
    return web.json_response({"error": error_body(message, status)}, status=status)


def error_body(message: str, status: int) -> dict[str, Any]:
    kind = {400: "BadRequestError", 404: "NotFoundError"}.get(status, "InternalServerError")
    return {"message": message, "type": kind, "param": None, "code": status}
