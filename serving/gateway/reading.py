"""Reads the bodies of requests, within limits of size and time."""

import asyncio

from aiohttp import web

from serving.config import GatewayConfig
from serving.gateway.errors import ApiError


async def read_body(request: web.BaseRequest, config: GatewayConfig) -> bytes:
    """The whole body.

    Raises:
        ApiError: 413, it is too large; 408, it takes too long; 400, it is cut off or badly framed.
    """
    limit = config.max_body_bytes
    length = request.headers.get("Content-Length")
    if length is not None and int(length) > limit:
        raise _too_large(f"{length} bytes", limit)
    if request.content.is_eof() and request.content.exception() is None:
        body = request.content.read_nowait()
        if len(body) > limit:
            raise _too_large("larger", limit)
        return body
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        async with asyncio.timeout(config.client_timeout_s):
            return await _read(request, limit)
    except TimeoutError:
        message = f"the request's body was not there after {config.client_timeout_s:g} s"
        raise ApiError(408, message, kind="slow_client", close=True) from None


async def _read(request: web.BaseRequest, limit: int) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise _too_large("larger", limit) from None
    except web.RequestPayloadError as error:
        raise ApiError(400, f"the request's body cannot be read: {error}", close=True) from None


def _too_large(what: str, limit: int) -> ApiError:
    message = f"the body is {what}, the limit is {limit} bytes (serving.gateway.max_body_bytes)"
    return ApiError(413, message, code="request_too_large", close=True)
