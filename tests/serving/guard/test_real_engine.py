"""What a real vLLM gives back."""

import asyncio

import httpx
import pytest

from serving.client import EngineClient
from serving.guard.memory import engine_memory
from tests.serving.conftest import Workshop

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_vllm_drops_prefixes_and_unloaded_adapters(workshop: Workshop) -> None:
    engine = workshop.engine
    assert 2**28 < engine_memory(engine).firm < 2**34

    async def load_and_unload() -> None:
        async with EngineClient(engine.url) as client:
            await client.load_adapter("guarded-v1", workshop.one.folder)
            await client.load_adapter("guarded-v2", workshop.other.folder)
            for name in ("guarded-v1", "guarded-v2"):
                await client.complete(name, [1, 2, 3], max_tokens=1)
            await client.unload_adapter("guarded-v1")

    asyncio.run(load_and_unload())
    with httpx.Client(base_url=engine.url, timeout=60) as http:
        told = http.post("/reset_prefix_cache").json()
        assert told["success"] and told["adapters_removed"] >= 1
        assert http.post("/reset_prefix_cache").json()["adapters_removed"] == 0
        # The calls that vLLM opens together with that one stay closed.
        assert http.post("/collective_rpc", json={"method": "check_health"}).status_code == 404

    async def ask_and_unload() -> None:
        async with EngineClient(engine.url) as client:
            assert (await client.complete("guarded-v2", [1, 2, 3], max_tokens=1)).tokens == 1
            await client.unload_adapter("guarded-v2")

    asyncio.run(ask_and_unload())
