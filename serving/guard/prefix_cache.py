"""One call of vLLM's that it offers with all its development calls only: drop the cached prefixes.

With VLLM_SERVER_DEV_MODE=1 vLLM opens `POST /reset_prefix_cache`, and also `/collective_rpc`, which runs any method of
its workers, and the calls that replace weights. `--middleware serving.guard.prefix_cache.PrefixCacheReset` adds the
one without the others. With it go the weights of adapters that were unloaded: vLLM forgets only their names, and keeps
the weights until others need the place. What is freed serves what the engine takes next; its allocator gives it back to
the system late.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

PATH = "/reset_prefix_cache"
MIDDLEWARE = "serving.guard.prefix_cache.PrefixCacheReset"

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class PrefixCacheReset:
    """ASGI middleware that answers `POST /reset_prefix_cache` as vLLM does, `{"success": bool}`: false while requests
    run. Everything else passes."""

    def __init__(self, app: Callable[[_Scope, _Receive, _Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        state = scope["app"].state
        success = await state.engine_client.reset_prefix_cache()
        removed = await _remove_unlisted(state)
        body = json.dumps({"success": bool(success), "adapters_removed": removed}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def _remove_unlisted(state: Any) -> int:
    """Free the weights of adapters whose names are gone; one that a request still uses is read again by the engine."""
    listed = {each.lora_int_id for each in state.openai_serving_models.lora_requests.values()}
    gone = sorted(set(await state.engine_client.list_loras()) - listed)
    for number in gone:
        await state.engine_client.remove_lora(number)
    return len(gone)
