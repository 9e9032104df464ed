"""A real llama.cpp engine: names that come and go beside traffic, and what it refuses."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from serving.client import EngineClient
from tests.serving.llama_cpp.conftest import LlamaCpp, start, wait_for
from tests.serving.material import FILES, MadeAdapter, make_adapter, place
from turnout.errors import EngineError, LoadRefused
from turnout.references import Base

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
ASKED = [{"role": "user", "content": "Count to ten."}]


def test_names_come_and_go_beside_streams_and_no_request_is_lost(
    engine: LlamaCpp, adapters: tuple[MadeAdapter, MadeAdapter]
) -> None:
    finished: list[int] = []

    async def stream(client: EngineClient, name: str, tokens: int) -> None:
        chunks = [chunk async for chunk in client.stream_chat(name, ASKED, max_tokens=tokens, ignore_eos=True)]
        assert {chunk.model for chunk in chunks} == {name}
        assert chunks[-1].completion_tokens == tokens
        finished.append(tokens)

    async def work(client: EngineClient) -> None:
        one, other = adapters
        traffic = [asyncio.create_task(stream(client, engine.base.name, 150)) for _ in range(3)]
        assert await client.load_adapter("one-v1", one.folder)
        assert not await client.load_adapter("one-v1", one.folder)
        traffic.append(asyncio.create_task(stream(client, "one-v1", 120)))
        while (await client.load())[0] < 1:
            await asyncio.sleep(0.02)
        assert await client.load_adapter("other-v1", other.folder)
        assert set(await client.models()) == {engine.base.name, "one-v1", "other-v1"}
        late = asyncio.create_task(stream(client, "one-v1", 100))
        await asyncio.sleep(0.2)
        await client.unload_adapter("one-v1")
        assert set(await client.models()) == {engine.base.name, "other-v1"}
        with pytest.raises(EngineError, match="one-v1` does not exist"):
            await client.complete("one-v1", [1, 2], max_tokens=1)
        await asyncio.gather(*traffic, late)
        await client.unload_adapter("other-v1")

    engine.do(work)
    assert len(finished) == 5
    wait_for(lambda: len(engine.servers()) == 1, 30)


def test_each_name_answers_as_if_it_were_alone(
    engine: LlamaCpp, adapters: tuple[MadeAdapter, MadeAdapter], base: Base, tmp_path: Path
) -> None:
    """The same prompt to all names in turn, and at once: none gets what another has computed of it."""
    names = (engine.base.name, "one-v1", "other-v1")

    async def ask(client: EngineClient, name: str) -> tuple[int, ...]:
        return (await client.continue_chat(name, ASKED, 12)).token_ids

    async def ask_alone(client: EngineClient) -> tuple[int, ...]:
        loaded = set(await client.models()) - {base.name}
        return await ask(client, next(iter(loaded), base.name))

    async def ask_all(client: EngineClient) -> list[tuple[int, ...]]:
        await client.load_adapter("one-v1", adapters[0].folder)
        await client.load_adapter("other-v1", adapters[1].folder)
        in_turn = [await ask(client, name) for name in names * 3]
        at_once = await asyncio.gather(*(ask(client, name) for name in names * 3))
        await client.unload_adapter("one-v1")
        await client.unload_adapter("other-v1")
        return [*in_turn, *at_once]

    alone = []
    for name, adapter in zip(names, (None, *adapters), strict=True):
        with start(base, tmp_path) as fresh:
            if adapter:
                fresh.load(name, adapter)
            alone.append(fresh.do(ask_alone))
    assert len(set(alone)) == 3
    assert engine.do(ask_all) == alone * 6


def test_what_cannot_be_served_is_refused_and_changes_nothing(
    engine: LlamaCpp, adapters: tuple[MadeAdapter, MadeAdapter], tmp_path: Path
) -> None:
    base = Path(engine.base.path)
    high = place(make_adapter(tmp_path / "high", base, rank=16), tmp_path)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / FILES[0]).write_bytes((adapters[0].folder / FILES[0]).read_bytes())
    (broken / FILES[1]).write_bytes(b"not tensors")
    before = engine.do(lambda client: client.models())
    for name, adapter, reason in (
        ("high-v1", high, "rank 16.*up to 8"),
        ("broken-v1", replace(high, folder=broken), "cannot convert"),
        ("nowhere-v1", replace(high, folder=tmp_path / "nowhere"), "HTTP 404"),
        (engine.base.name, adapters[0], "serves .* already"),
    ):
        with pytest.raises(LoadRefused, match=reason):
            engine.load(name, adapter)
    # Its conversion takes a quarter of a minute, and passes of the reconciler ask again and again.
    with pytest.raises(LoadRefused, match="cannot convert"):
        engine.load("again-v1", replace(high, folder=broken))
    assert engine.log.read_text().count(f"Converting the adapter in {broken}") == 1
    assert engine.do(lambda client: client.models()) == before
    assert len(engine.servers()) == len(before)


def test_an_adapter_of_another_base_is_refused(engine: LlamaCpp, tmp_path: Path) -> None:
    other = tmp_path / "other-base"
    other.mkdir()
    shape = json.loads((Path(engine.base.path) / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**shape, "intermediate_size": 256}))
    adapter = place(make_adapter(tmp_path / "made", other), tmp_path)
    with pytest.raises(LoadRefused):
        engine.load("foreign-v1", adapter)
    assert set(engine.do(lambda client: client.models())) == {engine.base.name}


def test_no_more_adapters_than_there_is_room_for(
    base: Base, adapters: tuple[MadeAdapter, MadeAdapter], tmp_path: Path
) -> None:
    with start(base, tmp_path, "--max-loras", "1") as engine:
        engine.load("one-v1", adapters[0])
        with pytest.raises(EngineError, match="the limit is 1") as short:
            engine.load("other-v1", adapters[1])
        assert not isinstance(short.value, LoadRefused)  # which is remembered
        engine.unload("one-v1")
        assert engine.load("other-v1", adapters[1])
