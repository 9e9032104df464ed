"""Engines' own counts of their requests, read from their metrics."""

import asyncio
import time

import pytest
from aiohttp import web

from serving.config import GatewayConfig
from serving.engine_metrics import read_counts
from serving.gateway.access import Access
from serving.gateway.loads import is_stale, poll, refresh
from serving.gateway.replicas import ReplicaState, load
from serving.gateway.state import State, open_session
from serving.ports import free_port
from serving.routes import Replica
from turnout.paths import Home

VLLM = """# HELP vllm:num_requests_running Number of requests in model execution batches.
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_running{engine="1",model_name="tiny"} 1.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 12.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 12.0
"""
LLAMA = """# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing{model_name="bot-v1"} 2
llamacpp:requests_deferred 5
"""


@pytest.mark.parametrize(
    ("text", "counts"), [(VLLM, (4, 12)), (LLAMA, (2, 5)), ("", None), ("vllm:kv_cache_usage_perc 0.5\n", None)]
)
def test_counts_of_both_kinds(text: str, counts: tuple[int, int] | None) -> None:
    assert read_counts(text) == counts


class Asked:
    """An engine's metrics, and a worker that reads them."""

    def __init__(self, home: Home) -> None:
        self.text = VLLM
        self.times = 0
        self.port = free_port("127.0.0.1")
        self.replica = ReplicaState(Replica("e", f"http://127.0.0.1:{self.port}", "sha", ("bot-v1",), 8), "tiny")
        self._home = home

    async def metrics(self, request: web.Request) -> web.Response:
        self.times += 1
        return web.Response(text=self.text)

    async def run(self) -> None:
        app = web.Application()
        app.router.add_get("/metrics", self.metrics)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        async with open_session() as session:
            state = State("w", self._home, GatewayConfig(), "token", session, Access(self._home))
            await self.counts_are_of_others(state)
            await runner.cleanup()
            await poll(state, self.replica)
        assert (self.replica.counted, self.replica.others) == (None, 0)

    async def counts_are_of_others(self, state: State) -> None:
        replica = self.replica
        entries = [replica.begin("bot-v1") for _ in range(6)]
        await poll(state, replica)
        assert load([replica]) == (16, 8)
        # What this worker sends and ends afterwards changes the sum; the others' part stays until the next count.
        replica.end(entries[0])
        replica.begin("bot-v1")
        replica.begin("bot-v1")
        assert load([replica]) == (17, 8)
        await refresh(state, [replica])
        assert self.times == 1
        assert replica.counted
        assert is_stale(replica, time.monotonic() + 3, 2.0)
        # An engine that counts fewer than this worker knows of has not seen the latest.
        self.text = LLAMA
        replica.counted = None
        await refresh(state, [replica])
        assert (self.times, replica.others) == (2, 0)
        assert load([replica]) == (7, 8)


def test_own_requests_are_not_counted_twice(tmp_path_factory: pytest.TempPathFactory) -> None:
    asyncio.run(Asked(Home(tmp_path_factory.mktemp("home"))).run())
