"""Copies of requests for versions that answer nobody yet: bounded, dropped first, their answers discarded."""

import random
from dataclasses import replace
from typing import Any

import aiohttp
from aiohttp.http import HttpProcessingError

from serving.gateway.fields import encode_request
from serving.gateway.forward import Call
from serving.gateway.health import in_background
from serving.gateway.replicas import InFlight, ReplicaState, load
from serving.gateway.state import State
from serving.gateway.table import Model
from serving.gateway.upstream import Unreachable

MAX_IN_FLIGHT = 4


def copy_to_shadows(state: State, model: Model, request: dict[str, Any], call: Call) -> None:
    """Send a sample of the requests to the model's shadows too, while their engines have room."""
    for fraction, arm in model.shadows:
        if random.random() >= fraction:  # noqa: S311
            continue
        total, room = load(arm.replicas)
        replica = state.replicas.choose(arm.pools, arm.served_name)
        if replica is None or total >= room or state.shadows >= MAX_IN_FLIGHT:
            arm.meter.count_shadow("dropped")
            continue
        body = encode_request(request, arm.served_name, ask_usage=False)
        state.shadows += 1
        in_background(state, _send(state, replica, replica.begin(arm.served_name), replace(call, arm=arm, body=body)))


async def _send(state: State, replica: ReplicaState, entry: InFlight, call: Call) -> None:
    outcome = "failed"
    try:
        limit_s = state.config.request_timeout_s
        answer = await replica.pool.post(call.path, call.headers, call.body, limit_s=limit_s)
        try:
            while await answer.content.readany():
                pass
            outcome = "answered" if answer.status < 400 else "refused"
        finally:
            answer.close()
    except (aiohttp.ClientError, HttpProcessingError, Unreachable, TimeoutError):
        pass
    finally:
        state.shadows -= 1
        replica.end(entry)
        call.arm.meter.count_shadow(outcome)
