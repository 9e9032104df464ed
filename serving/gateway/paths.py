"""Which path answers what. Nothing else reaches an engine."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import prometheus_client
from aiohttp import web

from serving.gateway import metrics
from serving.gateway.access import require_admin, visible
from serving.gateway.admin import INNER, administer, as_json
from serving.gateway.completions import complete
from serving.gateway.errors import RETRY_SOON, ApiError
from serving.gateway.fields import FIELDS
from serving.gateway.generate import PATHS
from serving.gateway.models_status import show_status
from serving.gateway.state import State

Answer = Callable[[State, web.BaseRequest], Awaitable[web.StreamResponse]]


async def list_models(state: State, request: web.BaseRequest) -> web.Response:
    """The names that this client may ask for."""
    key = state.access.identify(request.headers.get("Authorization"))
    models = state.table.models
    parents = {name: models[name].parent or name for name in visible(key, models)}
    data = [
        {
            "id": name,
            "object": "model",
            "created": int(state.began),
            "owned_by": "turnout",
            "root": parent,
            "parent": parent if parent != name else None,
        }
        for name, parent in parents.items()
    ]
    return as_json({"object": "list", "data": data})


async def health(state: State, request: web.BaseRequest) -> web.Response:
    return as_json({"status": "ok"})


async def ready(state: State, request: web.BaseRequest) -> web.Response:
    """Raises ApiError, 503, when requests would not be answered."""
    if state.drained or state.stopping:
        raise ApiError(503, "not ready: draining", headers=RETRY_SOON)
    if missing := state.table.missing():
        raise ApiError(503, f"not ready: no engine takes requests for {', '.join(missing)}", headers=RETRY_SOON)
    return as_json({"status": "ready", "generation": state.table.routes.generation})


async def show_metrics(state: State, request: web.BaseRequest) -> web.Response:
    headers = {"Content-Type": prometheus_client.CONTENT_TYPE_LATEST, "Server": "turnout"}
    text = await asyncio.to_thread(metrics.render, state.home.reconciler_metrics)
    return web.Response(body=text, headers=headers)


ASKED = frozenset([*FIELDS, *PATHS])
"""The paths that an engine answers."""

_PLAIN: dict[str, tuple[str, Answer]] = {
    "/v1/models": ("GET", list_models),
    "/models/status": ("GET", show_status),
    "/health": ("GET", health),
    "/ready": ("GET", ready),
    "/metrics": ("GET", show_metrics),
}


async def answer(state: State, request: web.BaseRequest) -> web.StreamResponse:
    """The public listener."""
    path = request.raw_path
    if path in ASKED and request.method == "POST":
        return await complete(state, request, path)
    path = path.partition("?")[0]
    try:
        if path.startswith("/admin/"):
            return await administer(state, request, path)
        if path in ASKED:
            if request.method == "POST":
                return await complete(state, request, path)
            return refuse_method(request.method, "POST")
        return await _plain(state, request, path, _PLAIN)
    except ApiError as error:
        return error.response()


async def answer_inner(state: State, request: web.BaseRequest) -> web.StreamResponse:
    """The listener on loopback, for this home's own processes."""
    path = request.raw_path.partition("?")[0]
    try:
        if path in INNER:
            require_admin(request.headers.get("Authorization"), state.token)
        return await _plain(state, request, path, {**_PLAIN, **INNER})
    except ApiError as error:
        return error.response()


async def _plain(
    state: State, request: web.BaseRequest, path: str, paths: dict[str, tuple[str, Answer]]
) -> web.StreamResponse:
    if path not in paths:
        known = ", ".join([*FIELDS, *PATHS, *paths])
        raise ApiError(404, f"there is no {path!r:.100} here; there are {known}", code="unknown_url")
    method, make = paths[path]
    if request.method != method and not (method == "GET" and request.method == "HEAD"):
        return refuse_method(request.method, "GET, HEAD" if method == "GET" else method)
    return await make(state, request)


def refuse_method(method: str, allowed: str) -> web.Response:
    headers = {"Allow": f"{allowed}, OPTIONS"}
    if method == "OPTIONS":
        return web.Response(status=204, headers={**headers, "Server": "turnout"})
    return ApiError(405, f"{method} is not served here, only {allowed}", headers=headers).response()


def guarded(state: State, inner: Answer) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """`inner` for a server: counts what is being answered, and turns what nobody foresaw into an error object."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        state.active += 1
        try:
            response = await inner(state, request)
        except (ConnectionError, TimeoutError):
            raise
        except Exception:
            logging.exception("%s %s", request.method, request.raw_path)
            response = ApiError(500, "the gateway failed; its log says why", kind="gateway").response()
        finally:
            state.active -= 1
        if state.stopping:
            response.force_close()
        return response

    return handle
