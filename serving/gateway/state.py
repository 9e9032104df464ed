"""All that one worker holds: its settings, its table, its replicas, its connections."""

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from serving.config import GatewayConfig
from serving.gateway.access import Access
from serving.gateway.figures import Figures
from serving.gateway.metrics import GENERATION, Meters, WeightGauge
from serving.gateway.replicas import Replicas
from serving.gateway.table import Table, build_table, shares
from serving.routes import Routes
from turnout.paths import Home


@dataclass
class State:
    """`drained`: an operator wants no more requests here. `stopping`: the process ends when all it has is answered.

    `active` are the requests of clients that are being answered. `observed` is the latest look at all engines, and
    when it began by the monotonic clock.
    """

    id: str
    home: Home
    config: GatewayConfig
    token: str
    session: aiohttp.ClientSession
    access: Access
    table: Table = field(default_factory=lambda: Table(Routes(0)))
    replicas: Replicas = field(default_factory=Replicas)
    figures: Figures = field(default_factory=Figures)
    meters: Meters = field(default_factory=Meters)
    weights: WeightGauge = field(default_factory=WeightGauge)
    drained: bool = False
    stopping: bool = False
    active: int = 0
    shadows: int = 0
    began: float = field(default_factory=time.time)
    poked_at: float = 0.0
    background: set[asyncio.Task[None]] = field(default_factory=set)
    observed: tuple[asyncio.Task[Any] | None, float] = (None, 0.0)

    def follow(self, routes: Routes) -> int:
        """Take `routes` unless newer ones are there; returns the generation that requests see from now on."""
        known = self.table.routes.generation
        if routes.generation >= known:
            self.replicas.follow(routes)
            self.figures.follow(routes.names)
            self.table = build_table(routes, self.replicas.states.values(), self.meters, self.figures)
            GENERATION.set(routes.generation)
            self.weights.show(shares(routes))
            if routes.generation > known:
                logging.info("routes of generation %d", routes.generation)
        return self.table.routes.generation


def open_session() -> aiohttp.ClientSession:
    """For health probes and calls of the reconciler; requests of clients have connections of their own."""
    return aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
