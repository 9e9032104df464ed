"""Asks an engine one question and times the answer."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from serving.client import EngineClient, Message
from turnout.errors import EngineError, NotFound


@dataclass(frozen=True)
class Answer:
    """`model` is the served name that answered, `backend` its engine's kind where a gateway was asked, which tells it;
    `ttft_ms` runs from the request to the first text.

    `tokens_per_second` counts the tokens after the first, over the time after the first.
    """

    text: str
    model: str
    ttft_ms: float
    tokens_per_second: float
    tokens: int
    backend: str = ""


def ask(
    url: str,
    model: str,
    text: str,
    *,
    system: str | None = None,
    max_tokens: int = 256,
    temperature: float = 0.0,
    key: str | None = None,
    on_text: Callable[[str], None] | None = None,
) -> Answer:
    """Ask the model served as `model` at `url`; `on_text` gets the answer's pieces as they come.

    `key` is the client's, for a gateway that wants one.

    Raises:
        NotFound: no such model is served there.
        EngineError: the engine does not answer, or refuses.
    """
    messages: list[Message] = [{"role": "system", "content": system}] if system is not None else []
    messages.append({"role": "user", "content": text})
    settings = {"max_tokens": max_tokens, "temperature": temperature}
    return asyncio.run(_ask(EngineClient(url, key=key), model, messages, settings, on_text))


async def _ask(
    engine: EngineClient,
    model: str,
    messages: list[Message],
    settings: dict[str, float],
    on_text: Callable[[str], None] | None,
) -> Answer:
    async with engine as client:
        served = await client.models()
        if model not in served:
            raise NotFound(f"{model} is not served at {client.url}", f"Served there: {', '.join(sorted(served))}")
        sent = time.monotonic()
        first = last = None
        pieces: list[str] = []
        tokens, answered_by, backend = 0, "", ""
        async for chunk in client.stream_chat(model, messages, **settings):
            answered_by, backend = chunk.model, chunk.backend
            tokens = chunk.completion_tokens or tokens
            if chunk.text:
                last = time.monotonic()
                first = first or last
                pieces.append(chunk.text)
                if on_text:
                    on_text(chunk.text)
    if not answered_by:
        raise EngineError(f"{engine.url} ended its answer as {model} before it began", "See the engine's log.")
    ended = time.monotonic()
    first, last = first or ended, last or ended
    rate = (tokens - 1) / (last - first) if tokens > 1 and last > first else tokens / (ended - sent)
    return Answer("".join(pieces), answered_by, round((first - sent) * 1000, 1), round(rate, 1), tokens, backend)
