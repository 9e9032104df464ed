"""An upstream that answers as an engine does, from prepared bytes, so that a gateway's own cost shows.

    python benchmarks/gateways/stub.py --port 9000 --models demo-v1,base [--chunks 64] [--interval-ms 2]

One process, no HTTP library: the answer is the same whatever is asked, only streamed where the body says so.
"""

import argparse
import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any, cast

import uvloop

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_STREAM = re.compile(rb'"stream" *: *true')
_USAGE_WANTED = re.compile(rb'"include_usage" *: *true')
_USAGE = {"prompt_tokens": 24, "completion_tokens": 64, "total_tokens": 88}
_COMMON = {"id": "chatcmpl-0123456789abcdef", "created": 1790000000}
_WORDS = "Cause: the worker ran out of file descriptors. Fix: raise worker_rlimit_nofile and reload. "


@dataclass(frozen=True)
class Answers:
    """Whole responses, ready to be written. `chunks` are the pieces of a stream, `interval_s` the time between two."""

    plain: bytes
    models: bytes
    health: bytes
    missing: bytes
    no_length: bytes
    stream_head: bytes
    chunks: tuple[bytes, ...]
    usage_chunk: bytes
    stream_end: bytes
    interval_s: float


def response(value: Any, status: str = "200 OK") -> bytes:
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def http_chunk(event: bytes) -> bytes:
    data = b"data: " + event + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def stream_chunk(model: str, choices: list[Any], **more: Any) -> bytes:
    value = {**_COMMON, "object": "chat.completion.chunk", "model": model, "choices": choices, **more}
    return http_chunk(json.dumps(value).encode())


def prepare(models: list[str], chunks: int, interval_s: float) -> Answers:
    model = models[0]
    message = {"role": "assistant", "content": _WORDS * 3}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    words = _WORDS.split()
    return Answers(
        plain=response({**_COMMON, "object": "chat.completion", "model": model, "choices": [choice], "usage": _USAGE}),
        models=response({"object": "list", "data": [{"id": each, "object": "model"} for each in models]}),
        health=response({}),
        missing=response({"error": {"message": "no such path", "type": "not_found", "code": 404}}, "404 Not Found"),
        no_length=response({"error": {"message": "the stub needs a Content-Length"}}, "411 Length Required"),
        stream_head=b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
        b"transfer-encoding: chunked\r\n\r\n",
        chunks=tuple(
            stream_chunk(
                model,
                [{"index": 0, "delta": {"content": f"{words[n % len(words)]} "}, "finish_reason": None}],
            )
            for n in range(chunks)
        ),
        usage_chunk=stream_chunk(model, [], usage=_USAGE),
        stream_end=stream_chunk(model, [{"index": 0, "delta": {}, "finish_reason": "stop"}]),
        interval_s=interval_s,
    )


class Connection(asyncio.Protocol):
    """One client's connection; requests on it are answered in turn."""

    transport: asyncio.Transport

    def __init__(self, answers: Answers, loop: asyncio.AbstractEventLoop) -> None:
        self.answers = answers
        self.loop = loop
        self.received = b""
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own type, which is no subclass

    def connection_lost(self, _: Exception | None) -> None:
        if self.timer:
            self.timer.cancel()

    def data_received(self, data: bytes) -> None:
        data = self.received + data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(data, 0, end + 2)
            if length is None and data.startswith(b"POST"):
                self.transport.write(self.answers.no_length)
                self.transport.close()
                return
            stop = end + 4 + (int(length[1]) if length else 0)
            if len(data) < stop:
                break
            self.answer(data[: data.find(b"\r\n")], data[end + 4 : stop])
            data = data[stop:]
        self.received = data

    def answer(self, request_line: bytes, body: bytes) -> None:
        if request_line.startswith((b"POST /v1/chat/completions ", b"POST /v1/completions ")):
            if _STREAM.search(body):
                self.transport.write(self.answers.stream_head)
                self.write_chunk(0, usage=_USAGE_WANTED.search(body) is not None)
            else:
                self.transport.write(self.answers.plain)
        elif request_line.startswith(b"GET /v1/models "):
            self.transport.write(self.answers.models)
        elif request_line.startswith(b"GET /health "):
            self.transport.write(self.answers.health)
        else:
            self.transport.write(self.answers.missing)

    def write_chunk(self, index: int, *, usage: bool) -> None:
        answers = self.answers
        if index < len(answers.chunks):
            self.transport.write(answers.chunks[index])
            again = lambda: self.write_chunk(index + 1, usage=usage)  # noqa: E731
            self.timer = self.loop.call_later(answers.interval_s, again)
            return
        last = (answers.usage_chunk,) if usage else ()
        self.transport.writelines((answers.stream_end, *last, http_chunk(b"[DONE]"), b"0\r\n\r\n"))


async def serve(port: int, answers: Answers) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(answers, loop), "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument(
        "--models", default="demo-v1,base", help="names in /v1/models; the first is the one that answers"
    )
    parser.add_argument("--chunks", type=int, default=64, help="pieces of text in a stream")
    parser.add_argument("--interval-ms", type=float, default=2.0, help="time between two pieces of a stream")
    arguments = parser.parse_args()
    answers = prepare(arguments.models.split(","), arguments.chunks, arguments.interval_ms / 1000)
    uvloop.run(serve(arguments.port, answers))


if __name__ == "__main__":
    main()
