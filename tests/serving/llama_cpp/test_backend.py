"""How one server of the llama.cpp engine ends beside the requests that it has."""

import asyncio

from serving.llama_cpp.backend import Backend
from serving.llama_cpp.child import ChildSettings

SETTINGS = ChildSettings("bot-v1", "/none.gguf", None, 1.0, 64, 1, 1, 64, mmap=True, mlock=False, gpu_layers=None)


def test_a_request_that_still_waits_for_its_server_keeps_it() -> None:
    """Its name may be unloaded between the moment when the request found it, and that when it is sent."""

    async def work() -> list[str]:
        backend, seen = Backend(SETTINGS, "", print), []

        async def ask() -> None:
            try:
                async with backend.request(0.2):
                    pass
            except TimeoutError:
                seen.append("the request gave up")

        asked = asyncio.create_task(ask())
        await asyncio.sleep(0)
        await backend.close(20)
        seen.append("the server ended")
        await asked
        return seen

    assert asyncio.run(work()) == ["the request gave up", "the server ended"]


def test_a_server_that_does_not_get_idle_is_ended_all_the_same() -> None:
    async def work() -> int:
        backend = Backend(SETTINGS, "", print)
        waiting = asyncio.create_task(backend.request(20).__aenter__())
        await asyncio.sleep(0)
        await backend.close(0.05)
        waiting.cancel()
        return backend.running

    assert asyncio.run(work()) == 1
