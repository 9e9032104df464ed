"""A real llama.cpp engine: servers that die, clients that leave, and how it ends."""

import asyncio
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import aiohttp
import psutil
import pytest

from serving.client import EngineClient
from serving.reply import is_healthy
from tests.serving.llama_cpp.conftest import LlamaCpp, start, wait_for
from turnout.references import Base

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
ASKED = [{"role": "user", "content": "Count to ten."}]


def test_a_server_that_is_killed_comes_back(engine: LlamaCpp) -> None:
    (server,) = engine.servers()
    server.kill()
    wait_for(lambda: not is_healthy(engine.url), 10)
    # It waits for the server that is being started.
    told = engine.do(lambda client: client.complete(engine.base.name, [1, 2, 3], max_tokens=2, ignore_eos=True))
    assert told.tokens == 2
    assert is_healthy(engine.url) and engine.servers()[0].pid != server.pid


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_leaves_ends_its_request(engine: LlamaCpp, streamed: bool) -> None:
    """Beside other traffic too, whose answers are ten times shorter than the one that nobody waits for."""

    async def work(client: EngineClient) -> None:
        body = {"model": engine.base.name, "prompt": "On and on", "max_tokens": 900, "ignore_eos": True}
        began = time.monotonic()
        async with aiohttp.ClientSession() as session:
            with pytest.raises(TimeoutError):
                async with (
                    asyncio.timeout(1),
                    session.post(engine.url + "/v1/completions", json={**body, "stream": streamed}) as response,
                ):
                    await response.read()
        async for _ in client.stream_chat(engine.base.name, ASKED, max_tokens=90, ignore_eos=True):
            pass
        patience = time.monotonic() + (time.monotonic() - began)
        while not await client.is_idle():
            assert time.monotonic() < patience
            await asyncio.sleep(0.1)

    engine.do(work)


def test_told_to_stop_it_finishes_its_requests(base: Base, tmp_path: Path) -> None:
    with start(base, tmp_path) as engine:
        left = engine.servers()

        async def work(client: EngineClient) -> int:
            asked = asyncio.create_task(client.complete(base.name, [1, 2, 3], max_tokens=200, ignore_eos=True))
            while (await client.load())[0] < 1:
                await asyncio.sleep(0.02)
            os.kill(engine.process.pid, signal.SIGTERM)
            return (await asked).tokens

        assert engine.do(work) == 200
        assert engine.process.wait(timeout=20) == 0
    assert not any(process.is_running() for process in left)


def test_nothing_is_left_of_a_killed_engine(base: Base, tmp_path: Path) -> None:
    with start(base, tmp_path) as engine:
        left = engine.servers()
        engine.process.kill()
        engine.process.wait()
        psutil.wait_procs(left, timeout=10)
        assert left and not any(process.is_running() for process in left)


def test_a_base_that_cannot_be_converted_ends_the_engine_with_the_reason(base: Base, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "config.json").write_text('{"architectures": ["NobodyForCausalLM"], "model_type": "nobody"}')
    odd = replace(base, path=str(folder), sha256="0" * 64)
    with pytest.raises(AssertionError, match="NobodyForCausalLM"), start(odd, tmp_path):
        raise RuntimeError("it started")
