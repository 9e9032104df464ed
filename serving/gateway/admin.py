"""What operators and the reconciler ask of a worker."""

import asyncio
from typing import Any

import aiohttp
import orjson
from aiohttp import web
from pydantic import ValidationError

from serving.gateway.access import require_admin
from serving.gateway.errors import ApiError
from serving.gateway.health import reconciler_url
from serving.gateway.reading import read_body
from serving.gateway.state import State
from serving.routes import Routes
from turnout.references import from_json, to_json

# The reconciler's answer to `prepare` takes as long as loading and proving a version does.
_RECONCILER_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5.0)


async def take_routes(state: State, request: web.BaseRequest) -> web.Response:
    """Raises ApiError, 400, when the body is not routes."""
    try:
        routes = from_json(Routes, await _read_json(state, request))
    except ValidationError as error:
        raise ApiError(400, f"the body is not routes: {error.errors()[0]['msg']}") from None
    return as_json({"id": state.id, "generation": state.follow(routes)})


async def show_state(state: State, request: web.BaseRequest) -> web.Response:
    return as_json(
        {
            "id": state.id,
            "generation": state.table.routes.generation,
            "draining": state.drained or state.stopping,
            "in_flight": state.replicas.in_flight(),
            "ejected": state.replicas.ejected(),
            "figures": state.figures.as_json(),
        }
    )


async def drain(state: State, request: web.BaseRequest) -> web.Response:
    """Raises ApiError, 400, unless the body is `{"drain": true}` or false."""
    wanted = await _read_json(state, request)
    if not isinstance(wanted, dict) or type(wanted.get("drain")) is not bool:
        raise ApiError(400, 'the body must be {"drain": true} or {"drain": false}', param="drain")
    state.drained = wanted["drain"]
    return as_json({"id": state.id, "draining": state.drained or state.stopping})


INNER = {
    "/inner/routes": ("PUT", take_routes),
    "/inner/state": ("GET", show_state),
    "/inner/drain": ("POST", drain),
}


async def administer(state: State, request: web.BaseRequest, path: str) -> web.StreamResponse:
    """The worker's own routes, or whatever the reconciler answers.

    Raises:
        ApiError: 401 without the admin token, 503 without a reconciler.
    """
    require_admin(request.headers.get("Authorization"), state.token)
    if path == "/admin/routes" and request.method == "GET":
        return as_json(to_json(state.table.routes))
    body = await read_body(request, state.config)
    url = await asyncio.to_thread(reconciler_url, state.home)
    if url is None:
        raise _no_reconciler("none was started in this home")
    headers = {"Authorization": f"Bearer {state.token}", "Content-Type": "application/json"}
    try:
        async with state.session.request(
            request.method, url + request.raw_path, data=body, headers=headers, timeout=_RECONCILER_TIMEOUT
        ) as answer:
            kind = answer.headers.get("Content-Type", "application/json")
            return web.Response(status=answer.status, body=await answer.read(), headers={"Content-Type": kind})
    except (aiohttp.ClientError, TimeoutError) as error:
        raise _no_reconciler(f"it does not answer at {url}: {error or type(error).__name__}") from None


def as_json(value: Any) -> web.Response:
    return web.Response(body=orjson.dumps(value), headers={"Content-Type": "application/json", "Server": "turnout"})


async def _read_json(state: State, request: web.BaseRequest) -> Any:
    try:
        return orjson.loads(await read_body(request, state.config))
    except ValueError as error:
        raise ApiError(400, f"the body is not valid JSON: {error}") from None


def _no_reconciler(why: str) -> ApiError:
    return ApiError(503, f"there is no reconciler to ask: {why}. `turnout up` starts it", kind="no_reconciler")
