"""Carries a release out: have the version ready everywhere, append the event, wait for the acknowledgements."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from registry.aliases import write_view
from registry.releases import Kind, Release, append, fold, read_log
from serving.control import Control, controls
from turnout.errors import EngineUnreachable
from turnout.paths import Home

if TYPE_CHECKING:
    from mlflow import MlflowClient

Say = Callable[[str], None]
"""Called with a few words on what is going on."""


@dataclass(frozen=True)
class Change:
    """An event to be: traffic, or a part of it, goes `to` a version and leaves another; the rest is the state after."""

    kind: Kind
    to: int
    leaves: int | None
    champion: int | None
    weights: dict[int, float] = field(default_factory=dict)
    shadow: dict[int, float] = field(default_factory=dict)
    schedule: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    figures: Mapping[str, Any] | None = None
    actor: str | None = None


@dataclass(frozen=True)
class Switch:
    """What a release did. `changed` is false where everything was so already.

    `seconds` runs from the append to the last acknowledgement; `pending` names those who have not acknowledged.
    `loaded_now`: some engine had not got the version, so it was loaded and probed first.
    """

    name: str
    before: int | None
    to: int
    changed: bool
    seconds: float
    generation: int
    pending: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    kind: str = "promote"
    loaded_now: bool = False


def carry_out(
    home: Home, client: "MlflowClient", name: str, release: Release, change: Change, say: Say | None = None
) -> Switch:
    """Make `change` to what `release` says.

    Raises:
        EngineError: an engine cannot take the version, or nobody can be asked; nothing changed.
        RegistryConflict: somebody else released meanwhile; this changed nothing.
    """
    tell = say or (lambda _: None)
    places = controls(home)
    tell(f"preparing v{change.to}")
    loaded_on, unreachable = _prepare(places, name, change.to)
    began = time.monotonic()
    event = append(
        client,
        name,
        kind=change.kind,
        champion=change.champion,
        parent=release.head,
        weights=change.weights,
        shadow=change.shadow,
        schedule=change.schedule,
        actor=change.actor,
        reason=change.reason,
        figures=change.figures,
    )
    tell(f"event {event.number} appended")
    pending, problems = _switch(places, event.number, name)
    seconds = round(time.monotonic() - began, 3)
    after = fold(read_log(client, name, after=release.head), release)
    warnings = (*unreachable, *problems, *write_view(client, name, after))
    return Switch(
        name,
        change.leaves,
        change.to,
        True,
        seconds,
        event.number,
        pending,
        warnings,
        change.kind,
        bool(loaded_on),
    )


def confirm(home: Home, client: "MlflowClient", name: str, release: Release) -> Switch:
    """Change nothing, but see that everybody follows the log as it is: a release may have been cut off half-way."""
    assert release.champion is not None
    pending, problems = _switch(controls(home), release.generation, name)
    warnings = (*problems, *write_view(client, name, release))
    return Switch(name, release.champion, release.champion, False, 0.0, release.generation, pending, warnings)


def _prepare(places: list[Control], name: str, number: int) -> tuple[list[str], list[str]]:
    """The engines that the version was loaded on now, and who could not be asked.

    Raises EngineUnreachable where nobody could: a switch that nobody follows is not worth an event.
    """
    loaded_on: list[str] = []
    unreachable: list[EngineUnreachable] = []
    for place in places:
        try:
            loaded_on += place.prepare(name, number)
        except EngineUnreachable as error:
            unreachable.append(error)
    if unreachable and len(unreachable) == len(places):
        raise unreachable[0]
    return loaded_on, [error.message for error in unreachable]


def _switch(places: list[Control], event: int, name: str) -> tuple[tuple[str, ...], list[str]]:
    """Who has not acknowledged, and why."""
    with ThreadPoolExecutor(max_workers=len(places)) as pool:
        answers = list(pool.map(lambda place: place.switch(name, event), places))
    pending = tuple(each for answer in answers for each in answer.pending)
    return pending, [problem for answer in answers for problem in answer.problems]
