"""The release log of a name: an MLflow registered model whose versions are its events. Only this module appends."""

import getpass
import random
import socket
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from registry.events import KINDS, Event, Kind, Release, fold
from registry.faults import error_code, fault_of, translated
from registry.names import releases_name
from registry.versions import get_version
from turnout.errors import BadInput, RegistryConflict, RegistryUnavailable

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["Event", "Kind", "Release", "append", "fold", "history", "read_log"]

_PAGE = 1000
_ATTEMPTS = 8
_MAX_REASON_CHARACTERS = 4000


@translated()
def read_log(client: "MlflowClient", name: str, *, after: int = 0) -> list[Event]:
    """The events of `name` with numbers above `after`, in order, those without effect included.

    A thousand events take about a third of a second on SQLite, so whoever polls keeps a `Release` and reads
    after its `head`.
    """
    filter_string = f"name = '{releases_name(name)}'" + (f" AND version_number > {after:d}" if after else "")
    events: list[Event] = []
    token: str | None = None
    while True:
        page = client.search_model_versions(filter_string, _PAGE, ["version_number ASC"], token)
        events += [Event.from_tags(int(found.version), found.tags) for found in page]
        token = page.token
        if not token:
            return sorted(events, key=lambda event: event.number)


def history(client: "MlflowClient", name: str) -> list[dict[str, Any]]:
    """The log as plain values, oldest first."""
    return [event.to_row() for event in read_log(client, name)]


@translated()
def append(
    client: "MlflowClient",
    name: str,
    *,
    kind: Kind,
    champion: int | None,
    parent: int,
    weights: Mapping[int, float] | None = None,
    shadow: Mapping[int, float] | None = None,
    schedule: Mapping[str, Any] | None = None,
    actor: str | None = None,
    reason: str = "",
    figures: Mapping[str, Any] | None = None,
) -> Event:
    """Append an event that takes effect only if nobody wrote since its caller read the log up to `parent`.

    `parent` is `fold(read_log(...)).head`. The event carries the whole state after it: `champion`, and the
    `weights` and `shadow` shares in percent that go on.

    Raises:
        RegistryConflict: another event came first and says who wrote it; this one stays as history at most.
        NotFound: no such version.
        RegistryUnavailable: MLflow did not answer; the message says when it is unknown whether it took effect.
    """
    if kind not in KINDS:
        raise BadInput(f"{kind!r} is not a kind of event", f"one of {', '.join(KINDS)}")
    if len(reason) > _MAX_REASON_CHARACTERS:
        raise BadInput(f"the reason has {len(reason)} characters; at most {_MAX_REASON_CHARACTERS} fit", "shorten it")
    event = Event(
        number=0,
        parent=parent,
        kind=kind,
        champion=champion,
        weights=dict(weights or {}),
        shadow=dict(shadow or {}),
        schedule=dict(schedule or {}),
        actor=actor or default_actor(),
        reason=reason,
        figures=dict(figures or {}),
        timestamp=datetime.now(UTC).isoformat(timespec="milliseconds"),
        id=uuid.uuid4().hex,
    )
    number = _write(client, name, event)
    if number == parent + 1:
        return Event.from_tags(number, event.to_tags())
    log = read_log(client, name, after=parent)
    own = next((each for each in log if each.id == event.id and each.effective), None)
    if own is None:
        raise _lost(name, event, log)
    return own


def default_actor() -> str:
    """Who appends, for the log: user@machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def _write(client: "MlflowClient", name: str, event: Event) -> int:
    """Write the event and return its number.

    MLflow gives up when several writers meet, and an answer may be lost after the event was stored, so a
    failed attempt first looks for the event in the log.
    """
    carrier = event.champion if event.champion is not None else next(iter({**event.weights, **event.shadow}), None)
    if carrier is None:
        raise BadInput(f"a {event.kind} event names no version", "give its champion, weights or shadow")
    # A server wants every model version to point at a run's artifacts: those of the version released.
    version = get_version(client, name, carrier)
    for attempt in range(_ATTEMPTS):
        try:
            return _create(client, name, event, version.source, version.run_id)
        except Exception as error:
            fault = fault_of(error)
            if fault is None or attempt == _ATTEMPTS - 1:
                raise
            number = _number_of(client, name, event)
            if number is not None:
                return number
            time.sleep(random.uniform(0.01, 0.05) * 2**attempt)  # noqa: S311
    raise AssertionError("unreachable")


def _create(client: "MlflowClient", name: str, event: Event, source: str, run_id: str) -> int:
    from mlflow.exceptions import MlflowException

    model, tags = releases_name(name), event.to_tags()
    subject = f" v{event.champion}" if event.champion is not None else ""
    note = f"{event.kind}{subject} {event.reason}".strip()
    for _ in range(2):
        try:
            created = client.create_model_version(
                model, source, run_id, tags=tags, description=note, await_creation_for=0
            )
            return int(created.version)
        except MlflowException as error:
            if error_code(error) != "RESOURCE_DOES_NOT_EXIST":
                raise
        try:
            client.create_registered_model(model, description=f"The release log of `{name}`: each version is an event.")
        except MlflowException as error:
            if error_code(error) != "RESOURCE_ALREADY_EXISTS":
                raise
    raise RegistryUnavailable(f"{model} vanishes as soon as it is made", "do not delete it in MLflow while releasing")


def _number_of(client: "MlflowClient", name: str, event: Event) -> int | None:
    try:
        log = read_log(client, name, after=event.parent or 0)
    except RegistryUnavailable as error:
        raise RegistryUnavailable(
            f"whether the {event.kind} of {name} took effect is unknown: {error.message}",
            f"when MLflow answers, `turnout history {name}` shows it",
        ) from error
    own = [each.number for each in log if each.id == event.id]
    if not own and log:
        raise _lost(name, event, log)
    return min(own) if own else None


def _lost(name: str, event: Event, log: list[Event]) -> RegistryConflict:
    winner = next((each for each in log if each.effective and each.parent == event.parent), None)
    if winner is None:
        won = f"event {(event.parent or 0) + 1} was taken by an event that is no longer there"
    else:
        subject = f" of v{winner.champion}" if winner.champion is not None else ""
        won = f"{winner.actor} came first with the {winner.kind}{subject} (event {winner.number}, {winner.timestamp})"
    return RegistryConflict(
        f"the {event.kind} of {name} did not take effect: {won}",
        f"look at `turnout status {name}`, then run it again if you still want it",
    )
