"""The reconciler's process: `python -m serving.reconciler`, with TURNOUT_HOME saying whose. `turnout up` starts it."""

import argparse
import asyncio
import hmac
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from aiohttp import web

from serving.processes import create_time
from serving.reconciler_service import Service
from serving.tokens import admin_token
from turnout.errors import BadInput, EngineUnreachable, NotFound, Refused, RegistryConflict, TurnoutError
from turnout.files import read_json, write_json
from turnout.paths import Home, home

_STATUS = {NotFound: 404, BadInput: 400, Refused: 409, RegistryConflict: 409, EngineUnreachable: 503}
_THREADS = 64
_RECORD_EVERY_S = 2.0
_CALLS = (
    "POST /admin/prepare",
    "POST /admin/reconcile",
    "POST /admin/override",
    "POST /admin/drain",
    "GET /admin/figures",
    "GET /admin/state",
)
"""Each is answered by the method of Service that has its name."""

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--routes-only", action="store_true", help="serve the routes on disk; ask no registry")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asyncio.run(_serve(home(), follow_log=not args.routes_only))


async def _serve(of: Home, *, follow_log: bool) -> None:
    # Calls wait in threads, for a load that takes minutes; a switch is not to wait for one of theirs.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
    service = Service(of, follow_log=follow_log)
    runner = web.AppRunner(_app(service, admin_token(of)), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    record = {"url": f"http://127.0.0.1:{port}", "pid": os.getpid(), "create_time": create_time(os.getpid())}
    write_json(of.reconciler, record)
    listening = asyncio.ensure_future(_keep_record(of, record))
    passes = asyncio.ensure_future(service.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, passes.cancel)
    with suppress(asyncio.CancelledError):
        await passes
    listening.cancel()
    await runner.cleanup()
    # A pass may be in the middle of a load, in a thread that nothing can end; it may be killed at any point.
    os._exit(0)


async def _keep_record(of: Home, record: dict[str, Any]) -> None:
    """Whoever loses this file loses the reconciler, and would start another one beside it in vain."""
    while True:
        await asyncio.sleep(_RECORD_EVERY_S)
        try:
            if _recorded(of) != record:
                write_json(of.reconciler, record)
        except OSError as error:
            logging.warning("%s is not written: %s", of.reconciler, error)


def _recorded(of: Home) -> Any:
    try:
        return read_json(of.reconciler)
    except ValueError:
        return None


def _app(service: Service, token: str) -> web.Application:
    app = web.Application(middlewares=[_told])
    for route in _CALLS:
        method, path = route.split()
        call: Answer = getattr(service, path.rpartition("/")[2])
        app.router.add_route(method, path, _handler(call, token))
    return app


def _handler(call: Answer, token: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode()):
            return _error(401, "unauthorised", "this call needs the admin token", "")
        try:
            return web.json_response(await call(await _body(request)))
        except TurnoutError as error:
            return _error(_status(error), error.kind, error.message, error.next_step)

    return handle


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json() if request.can_read_body else {}
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the body cannot be used: {error}", "give a JSON object") from error
    if not isinstance(body, dict):
        raise BadInput(f"the body is a JSON {type(body).__name__}, not an object", "give a JSON object")
    return body


@web.middleware
async def _told(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Errors of aiohttp's own, such as for an unknown call, as objects too."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        what = f"{request.method} {request.path}: {error.reason}"
        return _error(error.status, "bad_input", what, "the calls are " + ", ".join(_CALLS))
    except Exception as error:
        logging.exception("%s %s", request.method, request.path)
        return _error(500, "failed", f"{type(error).__name__}: {error}", "the reconciler's log says more")


def _status(error: TurnoutError) -> int:
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)


def _error(status: int, kind: str, message: str, next_step: str) -> web.Response:
    error = {"message": message, "type": "turnout_error", "param": None, "code": kind}
    return web.json_response({"error": error | {"kind": kind, "next_step": next_step}}, status=status)


if __name__ == "__main__":
    main()
