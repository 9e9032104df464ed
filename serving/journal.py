"""Emergency rollbacks: made without the registry, kept on disk, and written into the release log when it answers."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from registry.releases import append, default_actor, fold, read_log
from turnout.errors import RegistryConflict
from turnout.files import read_state, write_json
from turnout.paths import Home
from turnout.references import to_json

if TYPE_CHECKING:
    from mlflow import MlflowClient


@dataclass(frozen=True)
class Override:
    """The champion `before` of `name` was left for version `to`, at `timestamp`, while the log was out of reach."""

    id: str
    name: str
    before: int
    to: int
    actor: str
    reason: str
    timestamp: str


def write_override(home: Home, name: str, before: int, to: int, *, actor: str | None, reason: str) -> Override:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    override = Override(uuid.uuid4().hex, name, before, to, actor or default_actor(), reason, now)
    write_json(_file(home, override), to_json(override))
    return override


def read_overrides(home: Home) -> dict[str, Override]:
    """The newest override of each name that the log does not hold yet."""
    found = filter(None, (read_state(file, Override) for file in home.journal.glob("*.json")))
    return {each.name: each for each in sorted(found, key=lambda each: each.timestamp)}


def settle_overrides(client: "MlflowClient", home: Home, name: str) -> list[str]:
    """Append what the journal holds of `name` to the log, and forget it; returns what the log had overtaken.

    Raises:
        RegistryUnavailable: the journal stays as it is.
    """
    overtaken = []
    for override in _overrides_of(home, name):
        release = fold(read_log(client, name))
        if release.champion == override.before:
            try:
                append(
                    client,
                    name,
                    kind="rollback",
                    champion=override.to,
                    parent=release.head,
                    actor=override.actor,
                    reason=override.reason or "emergency rollback while the registry was out of reach",
                    figures={"emergency": override.id, "switched_at": override.timestamp},
                )
            except RegistryConflict:
                continue  # another gateway's reconciler, or a person, was first: the next pass looks again
        elif release.champion != override.to:
            overtaken.append(
                f"the emergency rollback of {name} to v{override.to} ({override.timestamp}) was overtaken: "
                f"the log is at v{release.champion} by now"
            )
        _file(home, override).unlink(missing_ok=True)
    return overtaken


def _overrides_of(home: Home, name: str) -> list[Override]:
    found = filter(None, (read_state(file, Override) for file in home.journal.glob("*.json")))
    return sorted((each for each in found if each.name == name), key=lambda each: each.timestamp)


def _file(home: Home, override: Override) -> Path:
    return home.journal / f"{override.id}.json"
