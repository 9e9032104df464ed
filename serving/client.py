"""Talks to one engine, by the HTTP surface of vLLM."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from serving.engine_metrics import read_counts
from serving.gateway.errors import BACKEND_HEADER
from turnout.errors import EngineError, EngineUnreachable, LoadRefused

Message = dict[str, Any]

_ID_PREFIX = "token_id:"

POSITIONS = "prompt_logprobs_positions"
"""The field of a request that says of which positions of a prompt the log-probabilities are wanted."""


@dataclass(frozen=True)
class Continuation:
    """Greedy tokens after a prompt. `top` holds each position's likeliest tokens: id → log-probability in nats."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    top: tuple[dict[int, float], ...]


@dataclass(frozen=True)
class Completion:
    """A whole answer. `finish_reason` is "stop" where it ended by itself, "length" where it was cut off."""

    text: str
    finish_reason: str
    tokens: int


@dataclass(frozen=True)
class Chunk:
    """A piece of a streamed answer: its text, and in the last one the number of completion tokens.

    `backend` is the kind of engine that answers, as a gateway says; empty where an engine was asked itself.
    """

    model: str
    text: str
    completion_tokens: int | None = None
    backend: str = ""


class EngineClient:
    """An engine's HTTP surface; use it as an async context manager.

    Every method raises EngineError, naming the engine, when it cannot be reached or refuses.
    """

    def __init__(self, url: str, *, timeout_s: float = 300.0, key: str | None = None) -> None:
        self.url = url
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=5)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # vLLM closes connections that were idle for 5 s, now and then just when the next request is written to one.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        self._session = aiohttp.ClientSession(timeout=self._timeout, connector=connector, headers=self._headers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session:
            await self._session.close()

    async def models(self) -> dict[str, str]:
        """Served name → folder, of the base and the adapters."""
        answer = await self._json("GET", "/v1/models")
        return {model["id"]: str(model.get("root") or "") for model in answer["data"]}

    async def load(self) -> tuple[int, int]:
        """How many requests run, and how many wait."""
        _, text = await self._send("GET", "/metrics")
        return read_counts(text) or (0, 0)

    async def is_idle(self) -> bool:
        return await self.load() == (0, 0)

    async def load_adapter(self, name: str, folder: Path) -> bool:
        """Load the adapter in `folder` as `name`; False where it is loaded from there already.

        Raises:
            LoadRefused: with the engine's reason. Trying again does not help.
        """
        _require_absolute_folder(name, folder)
        if await self._is_listed(name, folder):
            return False
        status, text = await self._send("POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
        if status == 200:
            return True
        if status == 400 and await self._is_listed(name, folder):
            return False
        if status == 503:  # it has no room at the moment
            raise self._error(f"cannot load {name} from {folder}: {_reason(text)}")
        raise LoadRefused(
            f"the engine at {self.url} refuses to load {name} from {folder}: {_reason(text)} (HTTP {status})",
            "The adapter, or the engine's limits, must change; the same load fails again.",
        )

    async def unload_adapter(self, name: str) -> None:
        """Free `name`; nothing happens where it is not loaded."""
        status, text = await self._send("POST", "/v1/unload_lora_adapter", {"lora_name": name})
        if status not in (200, 404):
            raise self._error(f"refuses to unload {name}: {_reason(text)} (HTTP {status})")

    async def prompt_logprobs(
        self, model: str, token_ids: list[int], positions: Sequence[int] | None = None
    ) -> list[float]:
        """The log-probability in nats of the tokens at `positions`, given those before each; all but the first if None.

        The first token has nothing before it, hence no log-probability.
        """
        body = {"model": model, "prompt": token_ids, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
        if positions is None:
            positions = range(1, len(token_ids))
        else:
            # vLLM computes all of them at once and passes over fields that it does not know; llama.cpp pays for each.
            body[POSITIONS] = list(positions)
        answer = await self._json("POST", "/v1/completions", body)
        entries = answer["choices"][0]["prompt_logprobs"]
        return [entries[position][str(token_ids[position])]["logprob"] for position in positions]

    async def complete(self, model: str, token_ids: Sequence[int], **settings: Any) -> Completion:
        """Answer a prompt of token ids greedily; `settings` are the request's other fields, such as `max_tokens`."""
        body = {"model": model, "prompt": list(token_ids), "temperature": 0, "seed": 0, **settings}
        answer = await self._json("POST", "/v1/completions", body)
        choice = answer["choices"][0]
        return Completion(choice["text"], choice["finish_reason"], answer["usage"]["completion_tokens"])

    async def continue_chat(self, model: str, messages: list[Message], max_tokens: int) -> Continuation:
        """Answer `messages` greedily, showing the ids that the engine's chat template made of them."""
        body = {"model": model, "messages": messages, "max_tokens": max_tokens, "temperature": 0, "seed": 0}
        body |= {"logprobs": True, "top_logprobs": 5, "return_token_ids": True, "return_tokens_as_token_ids": True}
        answer = await self._json("POST", "/v1/chat/completions", body)
        choice = answer["choices"][0]
        steps = choice["logprobs"]["content"]
        return Continuation(
            prompt_ids=tuple(answer["prompt_token_ids"]),
            token_ids=tuple(_token_id(step) for step in steps),
            logprobs=tuple(step["logprob"] for step in steps),
            top=tuple({_token_id(other): other["logprob"] for other in step["top_logprobs"]} for step in steps),
        )

    async def chat_prompt_ids(self, model: str, messages: list[Message]) -> tuple[int, ...]:
        """The token ids that the engine feeds the model for `messages`."""
        body = {"model": model, "messages": messages, "max_tokens": 1, "temperature": 0, "return_token_ids": True}
        return tuple((await self._json("POST", "/v1/chat/completions", body))["prompt_token_ids"])

    async def stream_chat(self, model: str, messages: list[Message], **settings: Any) -> AsyncIterator[Chunk]:
        """Stream an answer; `settings` are the request's other fields, such as `max_tokens`."""
        body = {"model": model, "messages": messages, "stream": True, **settings}
        body["stream_options"] = {"include_usage": True}
        try:
            async with self._open.post(self.url + "/v1/chat/completions", json=body) as response:
                if response.status != 200:
                    raise self._error(f"answers HTTP {response.status}: {_reason(await response.text())}")
                backend = response.headers.get(BACKEND_HEADER, "")
                async for line in response.content:
                    if line.startswith(b"data:") and (data := line[5:].strip()) != b"[DONE]":
                        yield self._chunk(json.loads(data), backend)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from error

    def _chunk(self, event: dict[str, Any], backend: str) -> Chunk:
        if "error" in event:
            raise self._error(f"broke off its answer: {_reason(json.dumps(event))}")
        text = "".join(choice["delta"].get("content") or "" for choice in event["choices"])
        return Chunk(event["model"], text, (event.get("usage") or {}).get("completion_tokens"), backend)

    async def _is_listed(self, name: str, folder: Path) -> bool:
        listed = (await self.models()).get(name)
        if listed is not None and listed != str(folder):
            raise LoadRefused(
                f"the engine at {self.url} serves {name} from {listed} already, not from {folder}",
                "A served name never changes its adapter: unload it first, or restart the engine (turnout down).",
            )
        return listed is not None

    @property
    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("use EngineClient as an async context manager")
        return self._session

    async def _json(self, method: str, path: str, body: Any = None) -> Any:
        status, text = await self._send(method, path, body)
        if status != 200:
            raise self._error(f"answers {path} with HTTP {status}: {_reason(text)}")
        return json.loads(text)

    async def _send(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        try:
            async with self._open.request(method, self.url + path, json=body) as response:
                return response.status, await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: BaseException) -> EngineError:
        return self._error(f"does not answer: {str(error) or type(error).__name__}", EngineUnreachable)

    def _error(self, what: str, kind: type[EngineError] = EngineError) -> EngineError:
        return kind(f"the engine at {self.url} {what}", "See its log, and start it again: turnout up")


def _require_absolute_folder(name: str, folder: Path) -> None:
    # The engine takes a relative path that does not exist for a hub's id, and would try to download it.
    if not folder.is_absolute():
        raise LoadRefused(f"{name} cannot be loaded from the relative path {folder}", "Give an absolute path.")


def _token_id(step: dict[str, Any]) -> int:
    return int(step["token"].removeprefix(_ID_PREFIX))


def _reason(text: str) -> str:
    """The message in an OpenAI-shaped error, or the text as it is."""
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(text)["error"]["message"])[:500]
    return text.strip()[:500] or "no reason given"
