"""Switching a name to a version: one event in the release log, then the views of it."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.aliases import write_view
from registry.releases import append, fold, read_log
from turnout.errors import RegistryConflict

if TYPE_CHECKING:
    from mlflow import MlflowClient


@dataclass(frozen=True)
class Switch:
    """What a release did. `changed` is false where the version was the champion already.

    `seconds` runs from the append to the last acknowledgement; `pending` names those who have not acknowledged.
    """

    name: str
    before: int | None
    to: int
    changed: bool
    seconds: float
    generation: int
    pending: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def promote(
    client: "MlflowClient",
    name: str,
    number: int,
    *,
    expect: int | None,
    reason: str = "",
    figures: dict[str, Any] | None = None,
) -> Switch:
    """Make version `number` the champion of `name`, if `expect` still is the champion (None: there is none).

    Raises:
        RegistryConflict: somebody else released meanwhile; nothing changed.
    """
    release = fold(read_log(client, name))
    if release.champion == number:
        warnings = write_view(client, name, release)
        return Switch(name, number, number, False, 0.0, release.generation, warnings=tuple(warnings))
    if release.champion != expect:
        raise RegistryConflict(
            f"{name} is at {_called(release.champion)} now, not at {_called(expect)} that v{number} was compared with",
            "Run the same command again: what is done is kept, and the gate compares with the new champion.",
        )
    started = time.monotonic()
    event = append(
        client, name, kind="promote", champion=number, parent=release.head, reason=reason, figures=figures or {}
    )
    seconds = round(time.monotonic() - started, 3)
    warnings = write_view(client, name, fold(read_log(client, name)))
    return Switch(name, release.champion, number, True, seconds, event.number, warnings=tuple(warnings))


def _called(number: int | None) -> str:
    return "no version" if number is None else f"v{number}"
