"""One real llama.cpp engine on the bundled base for all the tests here, and two adapters to load into it."""

import asyncio
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from serving.client import EngineClient
from serving.config import LlamaCppConfig, ServingConfig
from serving.llama_cpp.launch import build_launch
from serving.machine import this_machine
from serving.ports import free_port
from serving.reply import is_healthy
from tasks.bases import resolve_base
from tests.serving.material import MadeAdapter, make_adapter, place
from turnout.references import Base

T = TypeVar("T")
READY_S = 180
"""The first start converts the base, which takes half a minute on two idle cores."""


@dataclass(frozen=True)
class LlamaCpp:
    """A running engine."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: Path
    base: Base

    def servers(self) -> list[psutil.Process]:
        """Those of its names."""
        return psutil.Process(self.process.pid).children()

    def do(self, work: Callable[[EngineClient], Awaitable[T]]) -> T:
        async def go() -> T:
            async with EngineClient(self.url, timeout_s=120) as client:
                return await work(client)

        return asyncio.run(go())

    def load(self, name: str, adapter: MadeAdapter) -> bool:
        return self.do(lambda client: client.load_adapter(name, adapter.folder))

    def unload(self, name: str) -> None:
        self.do(lambda client: client.unload_adapter(name))


@contextmanager
def start(base: Base, folder: Path, *extra: str, **settings: Any) -> Iterator[LlamaCpp]:
    """A llama.cpp engine of its own; `extra` are flags of `python -m serving.llama_cpp`."""
    port, log = free_port("127.0.0.1"), folder / "engine.log"
    config = ServingConfig(port=port, max_model_len=1024, llama_cpp=LlamaCppConfig(**settings))
    launch = build_launch(base, config, 8, this_machine())
    url = f"http://127.0.0.1:{port}"
    with (
        open(log, "wb") as output,
        subprocess.Popen(
            [*launch.command, *extra],
            env={**os.environ, **launch.environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            wait_for(lambda: is_healthy(url) or process.poll() is not None, READY_S)
            assert process.poll() is None, log.read_text()
            yield LlamaCpp(url, process, log, base)
        finally:
            process.terminate()


def wait_for(done: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < deadline, f"not so within {limit_s} s"
        time.sleep(0.05)


@pytest.fixture(scope="session")
def base() -> Base:
    return resolve_base("bundled")


@pytest.fixture(scope="session")
def engine(base: Base, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaCpp]:
    with start(base, tmp_path_factory.mktemp("llama-cpp")) as running:
        yield running


@pytest.fixture(scope="session")
def adapters(base: Base, tmp_path_factory: pytest.TempPathFactory) -> tuple[MadeAdapter, MadeAdapter]:
    folder = tmp_path_factory.mktemp("adapters")
    one, other = (
        place(make_adapter(folder / f"{seed}", Path(base.path), scale=0.05, seed=seed), folder) for seed in (1, 2)
    )
    return one, other
