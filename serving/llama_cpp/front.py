"""The HTTP surface of the llama.cpp engine: the part of vLLM's that Turnout uses."""

import importlib.metadata
import json
import time
from typing import Any

import aiohttp
from aiohttp import web

from serving.llama_cpp.answering import Answering
from serving.llama_cpp.engine import LlamaCppEngine
from serving.llama_cpp.errors import RequestRefused, error_response
from serving.llama_cpp.figures import metrics, properties
from turnout.errors import NotFound, ResourceShort, TurnoutError

MAX_BODY_BYTES = 64 * 2**20


class Front:
    def __init__(self, engine: LlamaCppEngine) -> None:
        self._engine = engine
        self._answering = Answering(engine)
        self._started = int(time.time())

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_tell_errors])
        app.router.add_get("/health", self.health)
        app.router.add_get("/version", self.version)
        app.router.add_get("/v1/models", self.models)
        app.router.add_get("/metrics", self.metrics)
        app.router.add_get("/props", self.props)
        app.router.add_post("/v1/load_lora_adapter", self.load)
        app.router.add_post("/v1/unload_lora_adapter", self.unload)
        app.router.add_post("/v1/completions", self.complete)
        app.router.add_post("/v1/chat/completions", self.chat)
        return app

    async def health(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self._engine.healthy else 503)

    async def version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": importlib.metadata.version("xllamacpp")})

    async def models(self, _: web.Request) -> web.Response:
        base = self._engine.settings.base.name
        return web.json_response(
            {
                "object": "list",
                "data": [
                    {
                        "id": name,
                        "object": "model",
                        "created": self._started,
                        "owned_by": "llama.cpp",
                        "root": backend.folder,
                        "parent": None if name == base else base,
                        "max_model_len": self._engine.settings.context,
                    }
                    for name, backend in self._engine.backends.items()
                ],
            }
        )

    async def metrics(self, _: web.Request) -> web.Response:
        return web.Response(text=await metrics(self._engine), content_type="text/plain")

    async def props(self, _: web.Request) -> web.Response:
        return web.json_response(await properties(self._engine))

    async def load(self, request: web.Request) -> web.Response:
        asked = await _json(request)
        name, path = str(asked.get("lora_name") or ""), str(asked.get("lora_path") or "")
        await self._engine.load(name, path)
        return web.Response(text=f"Success: LoRA adapter '{name}' added successfully.")

    async def unload(self, request: web.Request) -> web.Response:
        name = str((await _json(request)).get("lora_name") or "")
        await self._engine.unload(name)
        return web.Response(text=f"Success: LoRA adapter '{name}' removed successfully.")

    async def complete(self, request: web.Request) -> web.StreamResponse:
        return await self._answering.answer(request, await _json(request), chat=False)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answering.answer(request, await _json(request), chat=True)


async def _json(request: web.Request) -> dict[str, Any]:
    try:
        value = json.loads(await request.read())
    except (ValueError, RecursionError) as error:
        raise RequestRefused(f"the body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise RequestRefused("the body is not a JSON object")
    return value


@web.middleware
async def _tell_errors(request: web.Request, handler: Any) -> web.StreamResponse:
    try:
        response: web.StreamResponse = await handler(request)
        return response
    except RequestRefused as error:
        return error_response(error.message, error.status)
    except NotFound as error:
        return error_response(error.message, 404)
    except ResourceShort as error:
        return error_response(error.message, 503)
    except TurnoutError as error:
        return error_response(error.message, 400)
    except (aiohttp.ClientError, TimeoutError) as error:
        return error_response(f"llama.cpp's server is gone: {str(error) or type(error).__name__}", 503)
