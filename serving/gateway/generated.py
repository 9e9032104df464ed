"""Makes /generate's answers of an engine's chat completions: whole, or as events while they stream."""

import time
from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from serving.gateway.errors import BACKEND_HEADER, VERSION_HEADER, ApiError
from serving.gateway.generate import UNCHOSEN, Generation
from serving.gateway.plain import Answerer
from serving.gateway.relay import Relayed, send
from serving.gateway.usage import EventFilter, split_events


class Generated:
    """The translation of one request's answer."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation

    async def whole(self, client: web.BaseRequest, body: bytes, by: Answerer, limit_s: float) -> Relayed:
        """Raises ApiError, 502, where `body` is not a chat completion; ConnectionError, the client is gone."""
        try:
            answer = orjson.loads(body)
            choice, usage = answer["choices"][0], answer["usage"]
            tokens = (int(usage["prompt_tokens"]), int(usage["completion_tokens"]))
            text, reason = choice["message"]["content"] or "", choice["finish_reason"]
        except (ValueError, LookupError, TypeError) as error:
            message = f"the engine's answer is not a chat completion: {type(error).__name__}: {error}"[:300]
            raise ApiError(502, message, kind="bad_answer") from None
        made = {"text": text, **figures(self._generation, by, tokens, reason)}
        headers = {"Content-Type": "application/json", "Server": "turnout"}
        headers |= {VERSION_HEADER: by[0], BACKEND_HEADER: by[1]}
        response = web.Response(body=orjson.dumps(made), headers=headers)
        await send(client, response, limit_s)
        return Relayed(response, tokens)

    def events(self, by: Answerer) -> "TokenEvents":
        return TokenEvents(self._generation, by)


class TokenEvents:
    """Makes events of a streamed chat completion: `token` for each piece of text, then `done` with the figures. One
    that breaks ends with `error` instead."""

    headers: Mapping[str, str] = {"Cache-Control": "no-cache"}

    def __init__(self, generation: Generation, by: Answerer) -> None:
        self.usage: tuple[int, int] | None = None
        self.done = False
        self.failed = False
        self._generation = generation
        self._by = by
        self._engine = EventFilter(keep_usage=True)
        self._first_at = 0.0
        self._reason: str | None = None

    def feed(self, chunk: bytes) -> bytes:
        return self._translate(self._engine.feed(chunk))

    def rest(self) -> bytes:
        return self._translate(self._engine.rest())

    def broken(self, message: str) -> bytes:
        if self.failed:
            return b""
        self.failed = True
        error = {"message": message, "type": "server_error", "param": None, "code": "stream_broken"}
        return _event("error", {"error": error})

    def _translate(self, events: bytes) -> bytes:
        self.usage = self._engine.usage
        return b"".join([self._translate_one(event) for event in split_events(events)])

    def _translate_one(self, event: bytes) -> bytes:
        data = b"\n".join(line[5:].strip() for line in event.splitlines() if line.startswith(b"data:"))
        if not data or self.failed or self.done:
            return b""
        if data == b"[DONE]":
            self.done = True
            return _event("done", self._figures())
        try:
            chunk = orjson.loads(data)
            if "error" in chunk:
                return self.broken(str(chunk["error"]["message"]))
            text = "".join(self._read(choice) for choice in chunk["choices"])
        except (ValueError, LookupError, TypeError) as error:
            return self.broken(f"the engine sent no chunk of a chat completion: {type(error).__name__}: {error}"[:300])
        return _event("token", {"token": text}) if text else b""

    def _read(self, choice: dict[str, Any]) -> str:
        self._reason = choice.get("finish_reason") or self._reason
        text: str = choice["delta"].get("content") or ""
        if text and not self._first_at:
            self._first_at = time.monotonic()
        return text

    def _figures(self) -> dict[str, Any]:
        first = round(self._first_at - self._generation.began, 6) if self._first_at else None
        return {**figures(self._generation, self._by, self.usage, self._reason), "time_to_first_token": first}


def figures(generation: Generation, by: Answerer, tokens: tuple[int, int] | None, reason: str | None) -> dict[str, Any]:
    """What is told of an answer besides its text. Times are in seconds, from the request's arrival to now; tokens
    are those that the engine counted, null where it did not say."""
    seconds = time.monotonic() - generation.began
    prompt, completion = tokens or (None, None)
    version, backend = by
    choice = generation.choice
    kept = choice.kind in (backend, UNCHOSEN.kind)
    why = choice.why if kept else f"{choice.kind} does not answer; it was chosen as {choice.why}"
    return {
        "model": version,
        "backend_used": backend,
        "generation_time": round(seconds, 6),
        "tokens_per_second": None if completion is None else round(completion / seconds, 3),
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "finish_reason": reason,
        "sampling": generation.sampling.as_json(),
        "why": why,
    }


def _event(name: str, data: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(data))
