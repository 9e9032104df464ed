"""Finds out which engines are well: from the requests that go to them, and by asking them."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any

import aiohttp
import orjson

from serving.gateway.replicas import MAX_FAULTS, ReplicaState
from serving.gateway.state import State
from serving.gateway.table import Arm
from turnout.files import read_json
from turnout.paths import Home

_EJECTED_EVERY_S = 1.0
_HEALTHY_EVERY_S = 5.0
_PROBE_TIMEOUT = aiohttp.ClientTimeout(total=5.0)
_POKE_EVERY_S = 1.0


def eject(state: State, replica: ReplicaState, why: str) -> None:
    if not replica.ejected:
        logging.warning("%s takes no more requests: %s", replica.id, why)
        replica.eject()


def fault(state: State, replica: ReplicaState, arm: Arm, *, broken: str = "") -> None:
    """Count an answer of 5xx, or a `broken` connection.

    Too many in a row eject the replica. Where only answers were bad, and no other replica could give better ones, it
    stays: a request that the engine cannot stand would else stop all the others.
    """
    replica.faults += 1
    others = any(each is not replica and each.takes(arm.served_name) for each in arm.replicas)
    if replica.faults >= MAX_FAULTS and (broken or others):
        eject(state, replica, f"{replica.faults} faults in a row{broken and ', the last: ' + broken}")


async def watch(state: State) -> None:
    """Ask ejected replicas every second, the others every five, and never one twice at a time."""
    asked: dict[str, tuple[asyncio.Task[None], float]] = {}
    while True:
        now = time.monotonic()
        for replica in state.replicas.states.values():
            replica.pool.close_idle()
            task, at = asked.get(replica.id, (None, 0.0))
            every = _EJECTED_EVERY_S if replica.ejected else _HEALTHY_EVERY_S
            if (task is None or task.done()) and now - at >= every:
                asked[replica.id] = (in_background(state, probe(state, replica)), now)
        await asyncio.sleep(_EJECTED_EVERY_S / 4)


async def probe(state: State, replica: ReplicaState) -> None:
    """Eject a replica that does not answer; from one that does, learn which of the routed names it has."""
    epoch = replica.epoch
    try:
        async with state.session.get(f"{replica.url}/v1/models", timeout=_PROBE_TIMEOUT) as answer:
            if answer.status != 200:
                return eject(state, replica, f"/v1/models answers {answer.status}")
            listed = [str(model["id"]) for model in orjson.loads(await answer.read())["data"]]
    except TimeoutError:
        # A busy CPU engine answers late, and is well.
        replica.late_probes += 1
        if replica.late_probes >= MAX_FAULTS:
            eject(state, replica, f"{replica.late_probes} health probes in a row were not answered")
        return None
    except (aiohttp.ClientError, ValueError, KeyError, TypeError) as error:
        return eject(state, replica, f"/v1/models: {error or type(error).__name__}")
    replica.late_probes = 0
    if epoch != replica.epoch:
        return None  # what was listed while the routes changed may lack what was loaded for them
    if replica.ejected:
        replica.restore(listed)
        logging.warning("%s takes requests again", replica.id)
        poke_reconciler(state)
    else:
        replica.relearn(listed)
    return None


def poke_reconciler(state: State) -> None:
    """Have the reconciler look now: an engine lacks what it should have. At most once a second."""
    now = time.monotonic()
    url = reconciler_url(state.home)
    if url and now - state.poked_at >= _POKE_EVERY_S:
        state.poked_at = now
        in_background(state, _poke(state, url))


async def _poke(state: State, url: str) -> None:
    headers = {"Authorization": f"Bearer {state.token}"}
    try:
        async with state.session.post(f"{url}/admin/reconcile", headers=headers, timeout=_PROBE_TIMEOUT) as answer:
            await answer.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        logging.info("the reconciler does not answer: %s", error or type(error).__name__)


def reconciler_url(home: Home) -> str | None:
    """Where this home's reconciler listens, if it ever wrote that down."""
    try:
        return str(read_json(home.reconciler)["url"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def in_background(state: State, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(work)
    state.background.add(task)
    task.add_done_callback(state.background.discard)
    return task
