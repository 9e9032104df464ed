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
from turnout.files import write_json
from turnout.paths import Home, home

_STATUS = {NotFound: 404, BadInput: 400, Refused: 409, RegistryConflict: 409, EngineUnreachable: 503}
_THREADS = 64

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
    passes = asyncio.ensure_future(service.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, passes.cancel)
    with suppress(asyncio.CancelledError):
        await passes
    await runner.cleanup()
    # A pass may be in the middle of a load, in a thread that nothing can end; it may be killed at any point.
    os._exit(0)


def _app(service: Service, token: str) -> web.Application:
    app = web.Application()
    calls: dict[str, Answer] = {
        "POST /admin/prepare": service.prepare,
        "POST /admin/reconcile": service.reconcile,
        "POST /admin/override": service.override,
        "POST /admin/drain": service.drain,
        "GET /admin/figures": service.figures,
        "GET /admin/state": service.state,
    }
    for route, call in calls.items():
        method, path = route.split()
        app.router.add_route(method, path, _handler(call, token))
    return app


def _handler(call: Answer, token: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), token.encode()):
            return _error(401, "unauthorised", "this call needs the admin token", "")
        try:
            body = await request.json() if request.can_read_body else {}
            return web.json_response(await call(body if isinstance(body, dict) else {}))
        except ValueError as error:
            if not isinstance(error, TurnoutError):
                return _error(400, "bad_input", f"the body cannot be used: {error}", "")
            return _error(_status(error), error.kind, error.message, error.next_step)
        except TurnoutError as error:
            return _error(_status(error), error.kind, error.message, error.next_step)

    return handle


def _status(error: TurnoutError) -> int:
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)


def _error(status: int, kind: str, message: str, next_step: str) -> web.Response:
    error = {"message": message, "type": "turnout_error", "param": None, "code": kind}
    return web.json_response({"error": error | {"kind": kind, "next_step": next_step}}, status=status)


if __name__ == "__main__":
    main()
