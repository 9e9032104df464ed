"""Brings the local stack up, takes it down, and says what it serves."""

import re
from dataclasses import dataclass
from pathlib import Path

from serving.config import ServingConfig
from serving.engines import Progress, start_engine, stop_engine
from serving.placement import loaded_adapters
from serving.proofs import proof_state
from serving.records import Engine, find_engine, list_engines
from serving.restore import Restored, load_routed, shapes
from serving.routes import read_routes, routed
from turnout.errors import BadInput, EngineError
from turnout.paths import Home
from turnout.references import Base

LEAST_RANK = 16
"""An engine that is started before any adapter is known takes ranks up to this one."""
_SERVED_NAME = re.compile(r"^(?P<name>.+)-v(?P<number>\d+)$")


@dataclass(frozen=True)
class Stack:
    """What `up` has brought up: the engine, and the versions that were put back onto it."""

    engine: Engine
    restored: Restored


@dataclass(frozen=True)
class ServedVersion:
    """One version on one engine. `traffic` is the share of its name's requests that it gets, 0 to 1."""

    name: str
    pool: str
    replica: int
    version: int
    loaded: bool
    proof: str
    traffic: float


def up(home: Home, config: ServingConfig, base: Base | None = None, progress: Progress | None = None) -> Stack:
    """Start this home's engine and load what its routes name; what is up already stays as it is.

    Args:
        base: what to serve where there are no routes yet.

    Raises:
        BadInput: there are no routes and no base.
        EngineError: the engine cannot be started, or another base is being served.
        ResourceShort: the port is taken.
    """
    routes = read_routes(home)
    served = routes.base if routes else base
    if served is None:
        raise BadInput("nothing was released yet, so there is nothing to serve", "Run the pipeline first: turnout run")
    rank, targets = shapes(routes)
    engine = find_engine(home)
    if engine is None or not engine.ready or engine.base.sha256 != served.sha256:
        rank = max(rank, LEAST_RANK if config.max_lora_rank is None else 1)
        engine = start_engine(home, served, config, rank, progress, targets=targets)
    return Stack(engine, load_routed(home, engine, routes))


def down(home: Home) -> list[Engine]:
    """Stop every engine of this home; returns those that ran."""
    engines = list_engines(home)
    running = [engine for engine in engines if engine.alive]
    for engine in engines:
        stop_engine(home, engine)
    return running


def status(home: Home) -> list[ServedVersion]:
    """The versions that are loaded, and those that the routes name and that are not."""
    routes = read_routes(home)
    engine = find_engine(home)
    loaded = _loaded(engine) if engine else {}
    digests = {each.served_name: each.version.adapter_sha256 for each in routed(routes)}
    rows = []
    for served_name in sorted({*loaded, *digests}):
        match = _SERVED_NAME.match(served_name)
        if match is None:
            continue
        # Adapters lie in folders named by their digest.
        digest = digests.get(served_name) or Path(loaded[served_name]).name
        name, number = match["name"], int(match["number"])
        state = proof_state(home, digest, engine.base.sha256, engine.build) if engine else "missing"
        champion = routes.names[name].champion if routes and name in routes.names else None
        pool = engine.id if engine else ""
        is_loaded, traffic = served_name in loaded, 1.0 if number == champion and engine else 0.0
        rows.append(ServedVersion(name, pool, 0, number, is_loaded, state, traffic))
    return rows


def _loaded(engine: Engine) -> dict[str, str]:
    """Served name → folder of the adapters on `engine`; none while it does not answer."""
    try:
        return loaded_adapters(engine)
    except EngineError:
        return {}
