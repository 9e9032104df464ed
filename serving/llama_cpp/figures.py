"""What the engine tells of itself: its servers' counts, and the model's and the engine's sizes."""

import asyncio
import re
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp

from serving.llama_cpp.backend import Backend
from serving.llama_cpp.engine import LlamaCppEngine

_SAMPLE = re.compile(r"^(llamacpp:\w+) (\S+)$")
_LIMIT = aiohttp.ClientTimeout(total=5)


async def metrics(engine: LlamaCppEngine) -> str:
    """The servers' metrics as Prometheus text, each sample with the name that it is of."""
    every = [backend for backend in (*engine.backends.values(), *engine.leaving) if backend.healthy]
    texts = await asyncio.gather(*(_fetch(engine, backend) for backend in every))
    about: dict[str, list[str]] = {}
    for backend, text in zip(every, texts, strict=True):
        for line in text.splitlines():
            if sample := _SAMPLE.match(line):
                about[sample[1]].append(f'{sample[1]}{{model_name="{backend.name}"}} {sample[2]}')
            elif line.startswith("# ") and line not in about.setdefault(line.split()[2], []):
                about[line.split()[2]].append(line)
    return "\n".join(line for lines in about.values() for line in lines) + "\n"


async def properties(engine: LlamaCppEngine) -> dict[str, Any]:
    """The model's sizes as the base's server read them from its file, and the settings that it runs with."""
    config, backend = engine.settings.config, engine.base
    told = {}
    if backend:
        async with (
            backend.request(_LIMIT.total or 0) as url,
            engine.session.get(url + "/v1/models", timeout=_LIMIT) as response,
        ):
            told = (await response.json())["data"][0]["meta"]
    return {
        "vocabulary": told.get("n_vocab"),
        "context": engine.settings.context,
        "context_trained": told.get("n_ctx_train"),
        "embedding": told.get("n_embd"),
        "layers": await asyncio.to_thread(count_layers, engine.gguf) if engine.gguf else None,
        "parameters": told.get("n_params"),
        "size_bytes": told.get("size"),
        "quantisation": config.quantisation,
        "threads": config.threads,
        "batch": config.batch,
        "mmap": config.mmap,
        "mlock": config.mlock,
        "slots": config.parallel,
        "servers": len(engine.backends),
    }


@cache
def count_layers(gguf: Path) -> int | None:
    """The number of the model's layers, which its file says and the server does not."""
    from gguf import GGUFReader

    fields = GGUFReader(gguf).fields
    for name, field in fields.items():
        if name.endswith(".block_count"):
            return int(field.contents())
    return None


async def _fetch(engine: LlamaCppEngine, backend: Backend) -> str:
    async with engine.session.get(backend.url + "/metrics", timeout=_LIMIT) as response:
        return await response.text() if response.status == 200 else ""
