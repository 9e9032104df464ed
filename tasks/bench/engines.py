"""Engines that live for a bench alone: each in a home of its own, always stopped, shared by benches that ask alike."""

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from serving.client import EngineClient
from serving.config import EngineKind, ServingConfig
from serving.engine_life import stop_engine, wait_ready
from serving.engines import launch_engine
from serving.machine import this_machine
from serving.ports import free_port
from serving.records import Engine, list_engines
from tasks.bench.adapter import BenchAdapter
from turnout.digests import json_sha256
from turnout.errors import TurnoutError
from turnout.paths import Home
from turnout.references import Base, to_json

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """An engine that a bench needs: `kind` serving `base` as `config` says, with room for `adapter`.

    Two that are alike are one engine; the port in `config` does not count, a free one is taken.
    """

    base: Base
    config: ServingConfig
    kind: EngineKind = "vllm"
    adapter: BenchAdapter | None = None

    @property
    def key(self) -> str:
        config = self.config.model_dump(mode="json", exclude={"port", "gateway", "guard"})
        return json_sha256([self.kind, to_json(self.base), config, self.adapter.sha256 if self.adapter else ""])[:16]


@dataclass
class Engines:
    """The engines of one bench run. Close it in any case: `close` stops them all.

    vLLM takes the better part of a minute to start, so its engines stay up for the benches to come; a GPU's memory
    holds one at a time, so there the one before is stopped. llama.cpp's are stopped as soon as nobody measures them.
    """

    home: Home
    progress: Progress = lambda text: None
    _up: dict[str, tuple[Wanted, Home, Engine]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.home.root / "bench" / "engines"

    @contextmanager
    def running(self, wanted: Wanted) -> Iterator[Engine]:
        """A ready engine as `wanted`, with its adapter loaded under its name.

        Raises:
            EngineError: it cannot be started, or does not take the adapter.
            ResourceShort: there is no room for it.
        """
        self.prepare([wanted])
        try:
            yield self._up[wanted.key][2]
        finally:
            if wanted.kind != "vllm":
                self.stop(wanted)

    def prepare(self, wanted: Sequence[Wanted]) -> None:
        """Start what of `wanted` is not up, all at once: they share the wait. On a GPU only the last one stays."""
        missing = list({each.key: each for each in wanted if each.key not in self._up}.values())
        if this_machine().gpus:
            for each in missing:
                self.close()
                self._start([each])
        elif missing:
            self._start(missing)

    def stop(self, wanted: Wanted) -> None:
        """Stop that one; nothing happens where it is not up."""
        if found := self._up.pop(wanted.key, None):
            stop_engine(found[1], found[2])

    def close(self) -> None:
        """Stop them all, also one whose start was interrupted."""
        self._up.clear()
        self._stop_recorded()

    def stop_leftovers(self) -> list[Engine]:
        """Stop the engines of a bench that was killed; call it while no other bench runs in this home."""
        stopped = self._stop_recorded()
        shutil.rmtree(self.folder, ignore_errors=True)
        return stopped

    def _stop_recorded(self) -> list[Engine]:
        """Stop what was ever started here; the logs stay for whoever looks for a reason."""
        stopped = []
        for root in sorted(self.folder.glob("*")):
            for engine in list_engines(Home(root)):
                if engine.alive:
                    stopped.append(engine)
                stop_engine(Home(root), engine)
        return stopped

    def _start(self, wanted: Sequence[Wanted]) -> None:
        names = " and ".join(each.kind for each in wanted)
        try:
            for each in wanted:
                home = Home(self.folder / each.key)
                self._up[each.key] = (each, home, self._launch(home, each))
            for each in wanted:
                _, home, engine = self._up[each.key]
                ready = wait_ready(home, engine, each.config.ready_timeout_s, self._waiting(names))
                self._up[each.key] = (each, home, ready)
                if each.adapter:
                    asyncio.run(_load(ready, each.adapter))
        except TurnoutError:
            # What is up must be ready and have its adapter: none of these is known to be.
            for each in wanted:
                self.stop(each)
            raise

    def _launch(self, home: Home, wanted: Wanted) -> Engine:
        config = wanted.config.model_copy(update={"port": free_port(wanted.config.host)})
        rank, targets = (wanted.adapter.rank, wanted.adapter.targets) if wanted.adapter else (1, ())
        return launch_engine(home, wanted.base, config, rank, targets=targets, kind=wanted.kind)

    def _waiting(self, names: str) -> Callable[[float, str], None]:
        return lambda seconds, _line: self.progress(f"{names} starts, {seconds:.0f} s")


async def _load(engine: Engine, adapter: BenchAdapter) -> None:
    async with EngineClient(engine.url) as client:
        await client.load_adapter(adapter.name, adapter.folder)
