"""Has the server of the name that a request asks for answer it."""

import json
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from serving.llama_cpp.assembling import assemble, can_be_assembled
from serving.llama_cpp.backend import Backend
from serving.llama_cpp.engine import LlamaCppEngine
from serving.llama_cpp.errors import RequestRefused, error_body
from serving.llama_cpp.replies import rewrite, rewrite_event, rewrites
from serving.llama_cpp.requests import translate, wants_token_ids
from serving.llama_cpp.scoring import as_vllm, prompt_logprobs, wanted_positions

RESTART_PATIENCE_S = 20.0
"""How long a request waits for a server that is being started again."""
_LINE_BYTES = 2**24

Body = dict[str, Any]


class Answering:
    def __init__(self, engine: LlamaCppEngine) -> None:
        self._engine = engine
        self._defaults = generation_defaults(Path(engine.settings.base.path))

    async def answer(self, http: web.Request, request: Body, *, chat: bool) -> web.StreamResponse:
        """vLLM's answer to `request`.

        Raises:
            RequestRefused: with the status.
            aiohttp.ClientError, TimeoutError: the server of that name is gone.
        """
        name = str(request.get("model") or self._engine.settings.base.name)
        backend = self._engine.backends.get(name)
        if backend is None:
            raise RequestRefused(f"The model `{name}` does not exist.", 404)
        body = translate(request, chat=chat, context=self._engine.settings.context, defaults=self._defaults)
        path = "/v1/chat/completions" if chat else "/v1/completions"
        async with backend.request(RESTART_PATIENCE_S) as url:
            if request.get("stream"):
                return await self._stream(http, url + path, body, request, chat)
            return await self._whole(backend, url, path, body, request, chat)

    async def _whole(
        self, backend: Backend, url: str, path: str, body: Body, request: Body, chat: bool
    ) -> web.Response:
        if request.get("prompt_logprobs") is not None:
            return await self._scored(backend, url + path, body, request, chat)
        answer = await self._ask(url + path, body, chat, streamed=can_be_assembled(request))
        if rewrites(request, chat):
            ids = await self._prompt_ids(backend, body, answer, chat) if wants_token_ids(request) else None
            answer = rewrite(answer, request, chat=chat, prompt_ids=ids)
        return web.json_response(answer)

    async def _scored(self, backend: Backend, url: str, body: Body, request: Body, chat: bool) -> web.Response:
        if chat or request["prompt_logprobs"] != 0 or not isinstance(body["prompt"], list):
            raise RequestRefused("llama.cpp serves prompt_logprobs=0 with a prompt of token ids alone")
        ids: list[int] = body["prompt"]
        positions = wanted_positions(request, ids)
        async with backend.slot() as slot:
            scored = await prompt_logprobs(backend, self._engine.session, slot, ids, positions)
            answer = await self._ask(url, body | {"id_slot": slot}, chat, streamed=False)
        answer = rewrite(answer, request, chat=chat, prompt_ids=ids if wants_token_ids(request) else None)
        answer["choices"][0]["prompt_logprobs"] = as_vllm(scored, ids)
        return web.json_response(answer)

    async def _ask(self, url: str, body: Body, chat: bool, *, streamed: bool) -> Body:
        """llama.cpp's plain answer, which is put together of a stream where it can be: see `assembling`.

        Raises:
            RequestRefused: with llama.cpp's own status and reason.
        """
        more = {"stream": True, "stream_options": {"include_usage": True}} if streamed else {}
        async with self._engine.session.post(url, json=body | more, read_bufsize=_LINE_BYTES) as response:
            if response.status != 200:
                raise RequestRefused(_reason(await response.read()), response.status)
            if not streamed:
                answer: Body = json.loads(await response.read())
                return answer
            return assemble([json.loads(line[6:]) async for line in response.content if line[:7] == b"data: {"], chat)

    async def _stream(self, http: web.Request, url: str, body: Body, request: Body, chat: bool) -> web.StreamResponse:
        async with self._engine.session.post(url, json=body, read_bufsize=_LINE_BYTES) as upstream:
            if upstream.status != 200:
                raise RequestRefused(_reason(await upstream.read()), upstream.status)
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
            await response.prepare(http)
            try:
                if rewrites(request, chat):
                    async for line in upstream.content:
                        await response.write(rewrite_event(line, request, chat))
                else:
                    async for piece in upstream.content.iter_any():
                        await response.write(piece)
            except aiohttp.ClientError as error:
                broken = {"error": error_body(f"llama.cpp's server broke off: {error or type(error).__name__}", 500)}
                await response.write(b"data: " + json.dumps(broken).encode() + b"\n\n")
            await response.write_eof()
            return response

    async def _prompt_ids(self, backend: Backend, body: Body, answer: Body, chat: bool) -> list[int]:
        """The ids that the server made of the prompt: by its own template and tokenizer, and as many as it counted."""
        if isinstance(body.get("prompt"), list):
            return list(body["prompt"])
        session = self._engine.session
        text = (await backend.post(session, "/apply-template", body))["prompt"] if chat else body["prompt"]
        asked = {"content": text, "add_special": True, "parse_special": True}
        ids = [int(each) for each in (await backend.post(session, "/tokenize", asked))["tokens"]]
        counted = answer["usage"]["prompt_tokens"]
        if len(ids) != counted:
            raise RequestRefused(f"the prompt has {len(ids)} token ids, and llama.cpp's server counted {counted}", 500)
        return ids


def generation_defaults(folder: Path) -> Body:
    """What the model's own generation config says of sampling, which vLLM goes by too."""
    try:
        config = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    fields = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
    return {field: config[field] for field in fields if config.get(field) is not None}


def _reason(raw: bytes) -> str:
    try:
        return str(json.loads(raw)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return raw.decode("utf-8", "replace")[:500]
