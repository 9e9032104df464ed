"""`GET /models/status`: what each engine is, has and does at the moment."""

import asyncio
import time
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from serving.engine_metrics import kv_cache, read_counts
from serving.gateway.access import may_call
from serving.gateway.admin import as_json
from serving.gateway.backends import KINDS, LLAMA_CPP
from serving.gateway.engine_facts import architecture, gpu_memory, used_memory
from serving.gateway.replicas import ReplicaState
from serving.gateway.state import State
from serving.keys import ClientKey
from serving.records import list_engines

_TIMEOUT = aiohttp.ClientTimeout(total=3.0)
_KEPT_S = 1.0
_SIZES = ("vocabulary", "context", "embedding", "layers")
_PROPS = ("parameters", "size_bytes", "quantisation", "threads", "batch", "mmap", "mlock", "slots")


async def show_status(state: State, request: web.BaseRequest) -> web.Response:
    """Of the versions on each engine, those that this client may ask for.

    Raises ApiError, 401, without a client key where one is needed.
    """
    key = state.access.identify(request.headers.get("Authorization"))
    at, seen = await _latest(state)
    engines = [_for_client(engine, key) for engine in seen]
    return as_json({"timestamp": at, "engines": engines, "backends": {kind: _sum_up(kind, engines) for kind in KINDS}})


async def _latest(state: State) -> tuple[float, list[dict[str, Any]]]:
    """What was seen at most a second ago: asking often is not to keep the engines busy."""
    task, at = state.observed
    if task is None or (task.done() and time.monotonic() - at > _KEPT_S):
        task = asyncio.get_running_loop().create_task(_observe(state))
        state.observed = (task, time.monotonic())
    # A client that leaves is not to end it for the others.
    return await asyncio.shield(task)


async def _observe(state: State) -> tuple[float, list[dict[str, Any]]]:
    replicas = list(state.replicas.states.values())
    local = asyncio.to_thread(_look_here, state, [each.id for each in replicas])
    here, *answers = await asyncio.gather(local, *(_ask(state, each) for each in replicas))
    engines = []
    for replica, answer in zip(replicas, answers, strict=True):
        base = state.table.routes.bases.get(replica.base_sha256)
        sizes = await asyncio.to_thread(architecture, base.path) if base else dict.fromkeys(_SIZES)
        engines.append({**_describe(replica), **here.get(replica.id, _NOT_HERE), **sizes, **answer})
    return time.time(), engines


_NOT_HERE: dict[str, int | None] = {"memory_bytes": None, "gpu_memory_bytes": None}


def _look_here(state: State, wanted: list[str]) -> dict[str, dict[str, int | None]]:
    """The memory of those engines that run on this machine."""
    here = [engine for engine in list_engines(state.home) if engine.id in wanted and engine.alive]
    on_gpus = gpu_memory() if here else {}
    return {engine.id: used_memory(engine, on_gpus) for engine in here}


def _describe(replica: ReplicaState) -> dict[str, Any]:
    return {
        "id": replica.id,
        "kind": replica.kind,
        "available": not replica.ejected,
        "base": replica.base_name,
        "versions": sorted(replica.ready - {replica.base_name}),
        "load": _load(replica, None),
        "kv_cache": None,
    }


def _load(replica: ReplicaState, counts: tuple[int, int] | None) -> dict[str, Any]:
    """Requests by the engine's own count, or where it does not answer, this worker's."""
    room = max(replica.concurrent, 1)
    running, waiting = counts or (min(replica.total, room), max(0, replica.total - room))
    share = round((running + waiting) / room, 4)
    counted_by = "engine" if counts else "gateway"
    return {
        "running": running,
        "waiting": waiting,
        "concurrent": replica.concurrent,
        "share": share,
        "counted_by": counted_by,
    }


async def _ask(state: State, replica: ReplicaState) -> dict[str, Any]:
    """What the engine says itself; nothing of what it does not."""
    paths = ["/v1/models", "/metrics", *(["/props"] if replica.kind == LLAMA_CPP else [])]
    listed, metrics, *props = await asyncio.gather(*(_get(state, replica.url + path) for path in paths))
    found: dict[str, Any] = {}
    if isinstance(listed, aiohttp.ClientError):
        found["available"] = False
    if isinstance(metrics, bytes):
        text = metrics.decode(errors="replace")
        found["load"] = _load(replica, read_counts(text))
        found["kv_cache"] = kv_cache(text)
    if context := _longest(_object(listed)):
        found["context"] = context
    for told in map(_object, props):
        found |= {name: told[name] for name in (*_SIZES, *_PROPS) if told.get(name) is not None}
    return found


async def _get(state: State, url: str) -> bytes | Exception:
    try:
        async with state.session.get(url, timeout=_TIMEOUT) as answer:
            return await answer.read() if answer.status == 200 else ValueError(f"HTTP {answer.status}")
    except TimeoutError as error:
        return TimeoutError(str(error))  # A busy engine answers late, and is well.
    except aiohttp.ClientError as error:
        return error


def _object(answer: bytes | Exception) -> dict[str, Any]:
    if not isinstance(answer, bytes):
        return {}
    try:
        value = orjson.loads(answer)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _longest(listed: dict[str, Any]) -> int | None:
    """The context that vLLM was started with: less than the model's own, often."""
    lengths = [model.get("max_model_len") for model in listed.get("data", []) if isinstance(model, dict)]
    return next((length for length in lengths if length), None)


def _for_client(engine: dict[str, Any], key: ClientKey | None) -> dict[str, Any]:
    return {**engine, "versions": [name for name in engine["versions"] if may_call(key, name)]}


def _sum_up(kind: str, engines: list[dict[str, Any]]) -> dict[str, Any]:
    """A kind's engines as one: `load` is the share of what they run at once that runs or waits."""
    up = [engine for engine in engines if engine["kind"] == kind and engine["available"]]
    if not up:
        return {"available": False}
    loads = [engine["load"] for engine in up]
    running, waiting, room = (sum(load[name] for load in loads) for name in ("running", "waiting", "concurrent"))
    memory = [engine["memory_bytes"] for engine in up if engine["memory_bytes"] is not None]
    return {
        "available": True,
        "engines": [engine["id"] for engine in up],
        "load": round((running + waiting) / max(room, 1), 4),
        "running": running,
        "waiting": waiting,
        "concurrent": room,
        "memory_stats": {"memory_bytes": sum(memory) if memory else None, "kv_cache": [e["kv_cache"] for e in up]},
        "model_info": {name: up[0][name] for name in _SIZES},
    }
