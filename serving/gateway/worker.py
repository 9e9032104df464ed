"""One gateway process: listens, follows routes, and finishes its requests when it is told to stop."""

import asyncio
import gc
import logging
import os
import signal
import time

from serving.config import GatewayConfig
from serving.gateway.access import Access
from serving.gateway.health import watch
from serving.gateway.listening import Server, listen, open_socket
from serving.gateway.loads import watch_loads
from serving.gateway.paths import answer, answer_inner, guarded
from serving.gateway.records import Worker, record_file, worker_id, write_record
from serving.gateway.state import State, open_session
from serving.processes import create_time
from serving.routes import read_routes
from serving.tokens import admin_token
from turnout.paths import Home

_LOOPBACK = "127.0.0.1"
_LAST_BYTES_S = 1.0
_RECORD_EVERY_S = 2.0
_COLLECT_AFTER_OBJECTS = 10_000


async def serve(home: Home, config: GatewayConfig, index: int) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is in flight, for at most `config.drain_s` seconds."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with open_session() as session:
        state = State(worker_id(config, index), home, config, admin_token(home), session, Access(home))
        if routes := read_routes(home):
            state.follow(routes)
        public = Server(guarded(state, answer), config.max_body_bytes)
        inner = Server(guarded(state, answer_inner), config.max_body_bytes)
        public_socket = open_socket(config.host, config.port, shared=config.workers > 1)
        inner_socket = open_socket(_LOOPBACK, 0, shared=False)
        listeners = [await listen(public, public_socket), await listen(inner, inner_socket)]
        worker = _describe(state, inner_socket.getsockname()[1])
        write_record(home, worker)
        listening = asyncio.create_task(_keep_record(home, worker))
        # What was released while this process started, before anybody could push to it.
        if routes := read_routes(home):
            state.follow(routes)
        watching = [asyncio.create_task(watch(state)), asyncio.create_task(watch_loads(state))]
        _spare_collections()
        logging.info("%s listens on %s:%d", state.id, config.host, config.port)
        await stop.wait()
        listening.cancel()
        await _finish(state, public, listeners)
        for task in watching:
            task.cancel()
        inner.pre_shutdown()
        await inner.shutdown(_LAST_BYTES_S)


async def _keep_record(home: Home, worker: Worker) -> None:
    """Whoever loses this file loses the worker: nobody would tell it of new routes."""
    while True:
        await asyncio.sleep(_RECORD_EVERY_S)
        try:
            write_record(home, worker)
        except OSError as error:
            logging.warning("%s is not written: %s", record_file(home, worker.id), error)


def _spare_collections() -> None:
    """What is there now stays, and requests leave no cycles: looking for some took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER_OBJECTS)


async def _finish(state: State, public: Server, listeners: list[asyncio.Server]) -> None:
    state.stopping = True
    listeners[0].close()
    public.pre_shutdown()
    deadline = time.monotonic() + state.config.drain_s
    while state.active and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    logging.info("%s stops with %d requests in flight", state.id, state.active)
    await public.shutdown(_LAST_BYTES_S)
    for task in list(state.background):
        task.cancel()
    record_file(state.home, state.id).unlink(missing_ok=True)


def _describe(state: State, inner_port: int) -> Worker:
    config = state.config
    host = {"0.0.0.0": _LOOPBACK, "::": "[::1]"}.get(config.host, config.host)  # noqa: S104
    return Worker(
        id=state.id,
        url=f"http://{host}:{config.port}",
        inner_url=f"http://{_LOOPBACK}:{inner_port}",
        pid=os.getpid(),
        create_time=create_time(os.getpid()) or time.time(),
    )
