"""Decides which engines are to be cleared, and which one restarted: pure, no process, no clock."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from serving.config import GuardConfig

State = Literal["fine", "clearing", "draining"]

RELIEF = 0.05
"""An engine is fine again this far below `clear_at`, so that it does not come and go at the threshold."""
GROWTH = 0.05
"""A restart must give back at least this share of a limit. An engine that has taken what it needs, and no more, would
be as large again."""


@dataclass(frozen=True)
class Pressure:
    """How much of a limit is used, and how much of it the engine has come to take since its start."""

    limit: str
    share: float
    growth: float


@dataclass(frozen=True)
class Look:
    """One engine as it was seen at one moment, under each limit that it is held to."""

    engine: str
    pressures: tuple[Pressure, ...]

    @property
    def worst(self) -> Pressure:
        return max(self.pressures, key=lambda each: each.share)


@dataclass(frozen=True)
class Standing:
    """What the guard remembers of an engine. `cleared_at` is by the monotonic clock, in seconds."""

    state: State = "fine"
    cleared_at: float | None = None


@dataclass(frozen=True)
class Decision:
    """The engines to clear now, the one to restart, and how each stands then."""

    standings: dict[str, Standing]
    clear: tuple[str, ...] = ()
    drain: str | None = None


def decide(config: GuardConfig, before: Mapping[str, Standing], looks: Iterable[Look], now: float) -> Decision:
    """What to do about the engines in `looks`.

    An engine past `clear_at` is cleared, and then again every `clear_every_s` at most, also when it was fine in
    between. One past `drain_at` that was cleared and has grown is restarted, the fullest first, one at a time.
    """
    standings: dict[str, Standing] = {}
    clear, due = [], []
    for look in looks:
        was = before.get(look.engine, Standing())
        line = config.clear_at if was.state == "fine" else config.clear_at - RELIEF
        state: State = "clearing" if look.worst.share >= line else "fine"
        standings[look.engine] = replace(was, state=state)
        if state == "fine":
            continue
        if was.cleared_at is None or now - was.cleared_at >= config.clear_every_s:
            standings[look.engine] = Standing(state, now)
            clear.append(look.engine)
        elif worth_a_restart(config, look):
            due.append(look)
    drain = max(due, key=lambda look: (look.worst.share, look.worst.growth)).engine if due else None
    if drain:
        standings[drain] = replace(standings[drain], state="draining")
    return Decision(standings, tuple(clear), drain)


def worth_a_restart(config: GuardConfig, look: Look) -> bool:
    """Whether a limit is about to be reached that a restart takes the engine away from."""
    return any(
        each.share >= config.drain_at and each.growth >= GROWTH and each.share - each.growth < config.drain_at
        for each in look.pressures
    )
