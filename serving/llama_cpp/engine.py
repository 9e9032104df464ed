"""What the llama.cpp engine serves: the base and the adapters, each by a server of its own.

llama.cpp takes adapters when it starts, and one server for all names would be unfair and unsafe: it computes one
adapter's requests at a time, those of its lowest slot first, so that traffic of one version can starve another's
(server-context.cpp, `can_batch_with`), and its store of prompts does not know which adapter's they are. A server a
name shares the weights with the others where they are mapped (`mmap`), and its own are its KV cache and its adapter.
"""

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp

from serving.config import LlamaCppConfig
from serving.llama_cpp.backend import Backend
from serving.llama_cpp.child import ChildSettings
from serving.llama_cpp.gguf import ensure_adapter_gguf, ensure_gguf
from turnout.digests import ADAPTER_FILES, adapter_sha256
from turnout.errors import EngineError, LoadRefused, NotFound, ResourceShort
from turnout.paths import cache
from turnout.references import Base

DRAIN_S = 600.0
"""How long a server whose name was unloaded finishes its requests."""


@dataclass(frozen=True)
class EngineSettings:
    """`context`: tokens a slot; `gguf`: a file to serve in place of the one that is made of the base."""

    base: Base
    config: LlamaCppConfig
    context: int
    max_lora_rank: int
    max_loras: int
    gguf: Path | None = None


class LlamaCppEngine:
    def __init__(self, settings: EngineSettings, session: aiohttp.ClientSession, log: Callable[[str], None]) -> None:
        self.settings = settings
        self.backends: dict[str, Backend] = {}
        self.leaving: set[Backend] = set()
        self.session = session
        self.gguf: Path | None = None
        self._refused: dict[str, str] = {}
        self._log = log
        self._changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def base(self) -> Backend | None:
        return self.backends.get(self.settings.base.name)

    @property
    def healthy(self) -> bool:
        return bool(self.backends) and all(backend.healthy for backend in self.backends.values())

    async def start(self) -> None:
        """Convert the base where that is not done, and serve it.

        Raises:
            TurnoutError: it cannot be converted, or not served.
        """
        settings = self.settings
        gguf = settings.gguf or await asyncio.to_thread(
            ensure_gguf, cache(), settings.base, settings.config.quantisation, self._log
        )
        self._child = ChildSettings(
            name=settings.base.name,
            gguf=str(gguf),
            adapter=None,
            scale=1.0,
            context=settings.context,
            parallel=settings.config.parallel,
            threads=settings.config.threads or 1,
            batch=settings.config.batch,
            mmap=settings.config.mmap,
            mlock=settings.config.mlock,
            gpu_layers=settings.config.gpu_layers,
        )
        await self._add(Backend(self._child, settings.base.path, self._log))
        self.gguf = gguf

    async def load(self, name: str, path: str) -> None:
        """Serve the adapter in the folder `path` as `name`; the others notice nothing of it.

        Raises:
            LoadRefused: with the reason; nothing has changed then.
            NotFound: there is no such folder.
            EngineError: the adapter cannot be converted, or llama.cpp does not take it.
            ResourceShort: not at the moment: the base is not served yet, as many adapters are loaded as may be, or disk
                or memory are full.
        """
        async with self._changing:
            if self.base is None:
                raise ResourceShort(f"{self.settings.base.name} is not served yet", "Try again when it is.")
            self._refuse_name(name, path)
            folder = Path(path)
            scale = adapter_scale(folder, self.settings.max_lora_rank)
            file = await self._converted(folder)
            await self._add(Backend(replace(self._child, name=name, adapter=str(file), scale=scale), path, self._log))

    async def _converted(self, folder: Path) -> Path:
        """The adapter's GGUF file. What this build of the converter could not make is not tried again."""
        digest = await asyncio.to_thread(adapter_sha256, folder)
        if known := self._refused.get(digest):
            raise LoadRefused(known)
        try:
            return await asyncio.to_thread(ensure_adapter_gguf, cache(), folder, self.settings.base.path, self._log)
        except EngineError as error:
            self._refused[digest] = error.message
            raise

    async def unload(self, name: str) -> None:
        """Stop serving `name`: new requests do not find it, those that run are finished.

        Raises:
            NotFound: it is not loaded.
        """
        async with self._changing:
            backend = self.backends.get(name)
            if backend is None or backend is self.base:
                raise NotFound(f"the adapter {name!r} is not loaded")
            del self.backends[name]
        self.leaving.add(backend)
        task = asyncio.create_task(self._let_go(backend))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self, patience_s: float) -> None:
        """End every server, each once its requests are done or `patience_s` seconds went by."""
        for task in self._tasks:
            task.cancel()
        every = [*self.backends.values(), *self.leaving]
        await asyncio.gather(*(backend.close(patience_s) for backend in every))

    async def _add(self, backend: Backend) -> None:
        await backend.start(self.session)
        self.backends[backend.name] = backend

    async def _let_go(self, backend: Backend) -> None:
        await backend.close(DRAIN_S)
        self.leaving.discard(backend)

    def _refuse_name(self, name: str, path: str) -> None:
        if not name or not path:
            raise LoadRefused("both 'lora_name' and 'lora_path' must be given")
        if name == self.settings.base.name:
            raise LoadRefused(f"{name!r} is the base's own name")
        if name in self.backends:
            raise LoadRefused(f"the adapter {name!r} is loaded already, from {self.backends[name].folder}")
        adapters, limit = len(self.backends) - 1, self.settings.max_loras
        if adapters >= limit:
            # No fault of this adapter's: nobody is to remember it as one that is not served here.
            raise ResourceShort(f"{adapters} adapters are loaded, and the limit is {limit} (serving.max_cpu_loras)")


def adapter_scale(folder: Path, max_rank: int) -> float:
    """What the adapter's product is multiplied by besides alpha / rank, which llama.cpp does itself.

    Raises:
        NotFound: a file of the adapter is missing.
        LoadRefused: llama.cpp would leave a part of this adapter out, or its rank is too high.
    """
    for name in ADAPTER_FILES:
        if not (folder / name).is_file():
            raise NotFound(f"there is no {folder / name}")
    try:
        config: dict[str, Any] = json.loads((folder / ADAPTER_FILES[0]).read_text(encoding="utf-8"))
        rank = int(config["r"])
    except (ValueError, KeyError, TypeError) as error:
        raise LoadRefused(f"{folder / ADAPTER_FILES[0]} is not an adapter's config: {error!r}") from error
    if rank > max_rank:
        raise LoadRefused(f"the adapter has rank {rank}, and this engine takes ranks up to {max_rank}")
    unknown = [key for key in ("use_dora", "modules_to_save", "alpha_pattern") if config.get(key)]
    if config.get("use_rslora") and config.get("rank_pattern"):
        unknown.append("use_rslora together with rank_pattern")
    if config.get("bias", "none") != "none":
        unknown.append("bias")
    if unknown:
        raise LoadRefused(f"llama.cpp serves no adapters with {', '.join(unknown)}: they would be left out")
    return math.sqrt(rank) if config.get("use_rslora") else 1.0
