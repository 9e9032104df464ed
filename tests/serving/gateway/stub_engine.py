"""An OpenAI-shaped server in place of an engine, for faults that a real one cannot be made to show.

`python stub_engine.py PORT NAME...` lists and answers the names. `POST /stub` with a JSON object changes how the
following requests are answered:

    mode      "ok", "error" (500), "missing" (404), "reset", "hang", "garbage", "cut" (a stream that breaks), "early" (a
              stream that ends without [DONE]), "bytes" (one byte at a time), "flood" (a stream without end), "told" (a
              stream that an error event ends), "nonsense" (200 and no JSON)
    times     how many requests that holds for; 0: until it is changed
    seconds   what each answer takes
    chunks    of a stream
    names     that are listed and answered
    metrics   what /metrics answers; 404 where it is empty

`GET /stub` tells what requests came in, and how many were broken off by whoever sent them.
"""

import asyncio
import json
import sys
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

USAGE = {"prompt_tokens": 7, "total_tokens": 12, "completion_tokens": 5}


@dataclass
class Behaviour:
    names: list[str]
    mode: str = "ok"
    times: int = 0
    seconds: float = 0.0
    chunks: int = 3
    seen: list[dict[str, Any]] = field(default_factory=list)
    broken_off: int = 0
    metrics: str = ""

    def next_mode(self) -> str:
        mode = self.mode
        if self.times:
            self.times -= 1
            if not self.times:
                self.mode = "ok"
        return mode


def event(model: str, index: int) -> bytes:
    choice = {"index": 0, "delta": {"content": f'w{index} "usage":{{'}, "finish_reason": None}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [choice]}
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def usage_event(model: str) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [], "usage": USAGE}
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def plain(model: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": 'hi "usage":{'}, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], "usage": USAGE}
    return json.dumps(body, separators=(",", ":")).encode()


class Stub:
    def __init__(self, names: list[str]) -> None:
        self.behaviour = Behaviour(names)

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": name} for name in self.behaviour.names]})

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=self.behaviour.metrics, status=200 if self.behaviour.metrics else 404)

    async def control(self, request: web.Request) -> web.Response:
        if request.method == "POST":
            for name, value in (await request.json()).items():
                setattr(self.behaviour, name, value)
        return web.json_response({"seen": self.behaviour.seen, "broken_off": self.behaviour.broken_off})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        behaviour, body = self.behaviour, await request.json()
        behaviour.seen.append({"path": request.path, "body": body, "headers": dict(request.headers)})
        mode = behaviour.next_mode()
        try:
            if mode == "hang":
                await asyncio.sleep(600)
            if not body.get("stream"):
                await asyncio.sleep(behaviour.seconds)
            return await self._answer(request, body, mode)
        except (asyncio.CancelledError, ConnectionError):
            behaviour.broken_off += 1
            raise

    async def _answer(self, request: web.Request, body: dict[str, Any], mode: str) -> web.StreamResponse:
        model = body["model"]
        assert request.transport is not None
        if mode == "reset":
            request.transport.abort()
        if mode == "garbage":
            request.transport.write(b"this is not HTTP\r\n\r\n")
            request.transport.close()
        if mode == "error":
            return web.json_response({"error": {"message": "broken", "type": "server_error"}}, status=500)
        if mode == "missing" or model not in self.behaviour.names:
            return web.json_response({"error": {"message": f"The model `{model}` does not exist."}}, status=404)
        if mode == "nonsense":
            return web.Response(text="this is not JSON", content_type="application/json")
        if not body.get("stream"):
            return web.Response(
                body=plain(model), content_type="application/json", headers={"x-request-id": "from-engine"}
            )
        return await self._stream(request, body, mode)

    async def _stream(self, request: web.Request, body: dict[str, Any], mode: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        index = 0
        while index < self.behaviour.chunks or mode == "flood":
            await self._send(response, event(body["model"], index) * (1000 if mode == "flood" else 1), mode)
            if mode != "flood":
                await asyncio.sleep(self.behaviour.seconds)
            index += 1
        if mode == "cut":
            assert request.transport is not None
            request.transport.abort()
        elif mode == "told":
            await response.write(b'data: {"error": {"message": "out of memory", "type": "server_error"}}\n\n')
            await response.write(b"data: [DONE]\n\n")
        elif mode != "early":
            if (body.get("stream_options") or {}).get("include_usage"):
                await self._send(response, usage_event(body["model"]), mode)
            await self._send(response, b"data: [DONE]\n\n", mode)
        await response.write_eof()
        return response

    async def _send(self, response: web.StreamResponse, data: bytes, mode: str) -> None:
        if mode == "bytes":
            for byte in data:
                await response.write(bytes([byte]))
                await asyncio.sleep(0)
        else:
            await response.write(data)


async def main() -> None:
    stub = Stub(sys.argv[2:])
    app = web.Application(client_max_size=2**28)
    app.router.add_get("/v1/models", stub.models)
    app.router.add_get("/metrics", stub.metrics)
    app.router.add_route("*", "/stub", stub.control)
    app.router.add_post("/v1/chat/completions", stub.complete)
    app.router.add_post("/v1/completions", stub.complete)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", int(sys.argv[1])).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
