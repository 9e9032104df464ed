"""Release events, and what they add up to: pure values, no MLflow."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

Kind = Literal["promote", "rollback", "canary", "step", "shadow", "abort", "manual"]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True)
class Event:
    """One entry of a release log.

    `parent` is the highest number that the writer saw. `champion`, `weights` and `shadow` (version → percent
    of the requests) and `schedule` are the whole state after the event, so readers need no older event for
    routing. `id` tells a writer its own event again when the answer to its append was lost.
    """

    number: int
    parent: int | None
    kind: str
    champion: int | None
    weights: dict[int, float] = field(default_factory=dict)
    shadow: dict[int, float] = field(default_factory=dict)
    schedule: dict[str, Any] = field(default_factory=dict)
    actor: str = ""
    reason: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    timestamp: str = ""
    id: str = ""

    @property
    def effective(self) -> bool:
        """MLflow gives each number once, so of all events with one parent at most one took effect."""
        return self.kind in KINDS and self.parent is not None and self.number == self.parent + 1

    def to_tags(self) -> dict[str, str]:
        values = {
            "parent": str(self.parent),
            "kind": self.kind,
            "champion": "" if self.champion is None else str(self.champion),
            "weights": _packed(self.weights),
            "shadow": _packed(self.shadow),
            "schedule": _packed(self.schedule),
            "actor": self.actor,
            "reason": self.reason,
            "figures": _packed(self.figures),
            "timestamp": self.timestamp,
            "id": self.id,
        }
        return {key: value for key, value in values.items() if value}

    @classmethod
    def from_tags(cls, number: int, tags: Mapping[str, str]) -> "Event":
        """An event from MLflow; one that nobody of Turnout's wrote comes out without a parent, hence without effect."""
        try:
            return cls(
                number=number,
                parent=int(tags["parent"]),
                kind=tags["kind"],
                champion=int(tags["champion"]) if "champion" in tags else None,
                weights=_shares(tags.get("weights")),
                shadow=_shares(tags.get("shadow")),
                schedule=_unpacked(tags.get("schedule")),
                actor=tags.get("actor", ""),
                reason=tags.get("reason", ""),
                figures=_unpacked(tags.get("figures")),
                timestamp=tags.get("timestamp", ""),
                id=tags.get("id", ""),
            )
        except (KeyError, ValueError, AttributeError):
            return cls(number, None, tags.get("kind", "unreadable"), None)

    def to_row(self) -> dict[str, Any]:
        """The event as `turnout history` shows it; routing fields only where they say something."""
        row: dict[str, Any] = {
            "number": self.number,
            "kind": self.kind,
            "champion": self.champion,
            "parent": self.parent,
            "effective": self.effective,
            "actor": self.actor,
            "reason": self.reason,
            "timestamp": self.timestamp,
            "figures": self.figures,
        }
        routing = {"weights": self.weights, "shadow": self.shadow, "schedule": self.schedule}
        return row | {key: value for key, value in routing.items() if value}


@dataclass(frozen=True)
class Release:
    """What a log says is to be served.

    `trail` holds every champion so far once, in the order of its latest time as one, the present one last.
    `generation` is the number of the last event that took effect, `kind` and `timestamp` are that event's; `head` is
    the number of the last one there is: the `parent` of the next.
    """

    champion: int | None = None
    trail: tuple[int, ...] = ()
    rolled_back: frozenset[int] = frozenset()
    weights: dict[int, float] = field(default_factory=dict)
    shadow: dict[int, float] = field(default_factory=dict)
    schedule: dict[str, Any] = field(default_factory=dict)
    generation: int = 0
    kind: str = ""
    timestamp: str = ""
    head: int = 0

    @property
    def previous(self) -> int | None:
        """What a rollback goes to: the newest earlier champion that no rollback left."""
        return next((version for version in reversed(self.trail[:-1]) if version not in self.rolled_back), None)


def fold(events: Iterable[Event], since: Release | None = None) -> Release:
    """The state after `events`, in any order; those that lost their race change nothing but `head`.

    With `since`, the state before, only the events after `since.head` are needed.
    """
    release = since or Release()
    for event in sorted(events, key=lambda each: each.number):
        if event.effective:
            release = _apply(release, event)
        release = replace(release, head=max(release.head, event.number))
    return release


def _apply(release: Release, event: Event) -> Release:
    """A rollback marks the champion that it leaves; being made champion again, by a person, lifts the mark."""
    champion = release.champion if event.champion is None else event.champion
    rolled_back, trail = release.rolled_back, release.trail
    if champion is not None and champion != release.champion:
        if event.kind == "rollback" and release.champion is not None:
            rolled_back = rolled_back | {release.champion}
        rolled_back = rolled_back - {champion}
        trail = (*(version for version in trail if version != champion), champion)
    return replace(
        release,
        champion=champion,
        trail=trail,
        rolled_back=rolled_back,
        weights=event.weights,
        shadow=event.shadow,
        schedule=event.schedule,
        generation=event.number,
        kind=event.kind,
        timestamp=event.timestamp,
    )


def _packed(value: Mapping[Any, Any]) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False) if value else ""


def _unpacked(text: str | None) -> dict[str, Any]:
    value = json.loads(text) if text else {}
    if not isinstance(value, dict):
        raise ValueError(f"not an object: {text}")
    return value


def _shares(text: str | None) -> dict[int, float]:
    return {int(version): float(percent) for version, percent in _unpacked(text).items()}
