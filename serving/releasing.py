"""Promote and roll back: plain functions, for the command line, for Prefect flows and for the pipeline."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.aliases import drop_candidate, read_aliases, write_view
from registry.names import called
from registry.releases import Release, append, fold, read_log
from registry.store import connect
from registry.versions import get_version, list_versions
from serving.canary import CanarySchedule
from serving.control import Control, controls
from serving.emergency import override
from turnout.errors import BadInput, EngineUnreachable, NotFound, Refused, RegistryConflict
from turnout.paths import Home

if TYPE_CHECKING:
    from mlflow import MlflowClient

Say = Callable[[str], None]
"""Called with a few words on what is going on."""


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


def promote(
    home: Home,
    name: str,
    version: int | None = None,
    *,
    expect: int | None = None,
    canary: float | None = None,
    schedule: CanarySchedule | None = None,
    shadow: float | None = None,
    seen: Release | None = None,
    keep_arms: bool = False,
    reason: str = "",
    figures: Mapping[str, Any] | None = None,
    actor: str | None = None,
    on_step: Say | None = None,
) -> Switch:
    """Switch the traffic of `name` to a version, or with `canary` or `shadow` a part or copies of it (percent).

    Args:
        version: the candidate, if left out.
        expect: do nothing unless this is the champion.
        seen: the state that the caller decided on; anything that was released since makes this fail.
        keep_arms: where the version is the champion already, a canary or shadow beside it goes on.

    Raises:
        NotFound: no such name or version, or there is no candidate.
        BadInput: a canary or shadow without another champion to compare with.
        Refused, ProofFailed, EngineError: the version cannot be served; traffic is untouched.
        RegistryConflict: somebody else released meanwhile; this changed nothing.
    """
    client = connect(home)
    release = seen or fold(read_log(client, name))
    number = version if version is not None else _candidate(client, name)
    get_version(client, name, number)
    _check_expected(name, release, expect)
    part = canary if canary is not None else shadow
    if part is not None and (release.champion is None or release.champion == number):
        raise BadInput(
            f"{name} v{number} has no other champion to be compared with",
            f"promote it without {'--canary' if canary is not None else '--shadow'}",
        )
    if part is None and release.champion == number and (keep_arms or not (release.weights or release.shadow)):
        pending, problems = _switch(controls(home), release.generation, name)
        warnings = (*problems, *write_view(client, name, release))
        return Switch(name, number, number, False, 0.0, release.generation, pending, warnings)
    state: dict[str, Any] = {"kind": "promote", "champion": number}
    if canary is not None:
        settings = (schedule or CanarySchedule()).model_dump(mode="json")
        state = {"kind": "canary", "champion": release.champion, "weights": {number: canary}, "schedule": settings}
    elif shadow is not None:
        state = {"kind": "shadow", "champion": release.champion, "shadow": {number: shadow}}
    return _release(
        home, client, name, number, release, state, reason=reason, figures=figures, actor=actor, say=on_step
    )


def rollback(
    home: Home,
    name: str,
    *,
    to: int | None = None,
    expect: int | None = None,
    reason: str = "",
    emergency: bool = False,
    actor: str | None = None,
    on_step: Say | None = None,
) -> Switch:
    """Switch back to the champion before, or to `to`; while a canary or shadow runs, end that instead.

    The version that is left is marked, so that no pipeline promotes it again. With `emergency` the registry is not
    asked: the gateways switch, and the event is written when the registry answers.

    Raises:
        NotFound: no such name or version.
        Refused: there is no earlier champion that was not rolled back itself.
        RegistryConflict: somebody else released meanwhile; this changed nothing.
    """
    if emergency:
        began = time.monotonic()
        done = override(home, name, to=to, expect=expect, actor=actor, reason=reason)
        seconds = round(time.monotonic() - began, 3)
        return Switch(
            name, done.before, done.to, True, seconds, done.generation, done.pending, done.warnings, "rollback"
        )
    client = connect(home)
    release = fold(read_log(client, name))
    if release.champion is None:
        list_versions(client, name)  # an unknown name says so
        raise Refused(f"{name} has no champion to leave", f"turnout promote {name}")
    _check_expected(name, release, expect)
    arms = {**release.weights, **release.shadow}
    if arms and to is None:
        return _end_arms(home, client, name, release, max(arms), reason=reason, actor=actor, say=on_step)
    target = to if to is not None else release.previous
    if target is None:
        raise Refused(
            f"{name} has no earlier champion than v{release.champion} that was not rolled back",
            f"name one: turnout rollback {name} --to VERSION (turnout versions {name} lists them)",
        )
    get_version(client, name, target)
    if target == release.champion:
        return Switch(name, target, target, False, 0.0, release.generation, kind="rollback")
    state = {"kind": "rollback", "champion": target}
    return _release(home, client, name, target, release, state, reason=reason, actor=actor, say=on_step)


def _end_arms(
    home: Home,
    client: "MlflowClient",
    name: str,
    release: Release,
    arm: int,
    *,
    reason: str,
    actor: str | None,
    say: Say | None,
) -> Switch:
    assert release.champion is not None
    state = {"kind": "abort", "champion": release.champion}
    switch = _release(
        home, client, name, release.champion, release, state, reason=reason, actor=actor, say=say, left=arm
    )
    drop_candidate(client, name, arm)
    return switch


def _release(
    home: Home,
    client: "MlflowClient",
    name: str,
    number: int,
    release: Release,
    state: dict[str, Any],
    *,
    reason: str = "",
    figures: Mapping[str, Any] | None = None,
    actor: str | None = None,
    say: Say | None = None,
    left: int | None = None,
) -> Switch:
    """Have the version ready everywhere, append the event, and wait for the acknowledgements.

    Args:
        left: the version that traffic leaves, where it is not the champion.
    """
    tell = say or (lambda _: None)
    places = controls(home)
    tell(f"preparing v{number}")
    loaded_on, unreachable = _prepare(places, name, number)
    began = time.monotonic()
    event = append(client, name, parent=release.head, reason=reason, figures=figures, actor=actor, **state)
    tell(f"event {event.number} appended")
    pending, problems = _switch(places, event.number, name)
    seconds = round(time.monotonic() - began, 3)
    warnings = write_view(client, name, fold(read_log(client, name)))
    before = left if left is not None else release.champion
    return Switch(
        name,
        before,
        number,
        True,
        seconds,
        event.number,
        pending,
        (*unreachable, *problems, *warnings),
        event.kind,
        bool(loaded_on),
    )


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
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=max(1, len(places))) as pool:
        answers = list(pool.map(lambda place: place.switch(name, event), places))
    pending = tuple(each for answer in answers for each in answer.pending)
    return pending, [problem for answer in answers for problem in answer.problems]


def _candidate(client: "MlflowClient", name: str) -> int:
    candidate = read_aliases(client, name).get("candidate")
    if candidate is None:
        known = list_versions(client, name)
        listed = ", ".join(f"v{version.number}" for version in reversed(known[-10:])) or "none"
        raise NotFound(
            f"{name} has no candidate; versions: {listed}", f"name the version: turnout promote {name} VERSION"
        )
    return candidate


def _check_expected(name: str, release: Release, expect: int | None) -> None:
    if expect is not None and release.champion != expect:
        raise RegistryConflict(
            f"{name} is at {called(release.champion)} now, not at v{expect}; nothing was changed",
            f"look at `turnout history {name}`, then decide again",
        )
