"""Promote and roll back: plain functions, for the command line, for Prefect flows and for the pipeline."""

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from registry.aliases import drop_candidate, read_aliases
from registry.names import called, check_name, unknown_name
from registry.reach import never_used
from registry.releases import Release, fold, read_log
from registry.store import connect
from registry.versions import get_version, list_versions
from serving.canary import CanarySchedule
from serving.emergency import override
from serving.switching import Change, Say, Switch, carry_out, confirm
from turnout.errors import BadInput, NotFound, Refused, RegistryConflict
from turnout.paths import Home

if TYPE_CHECKING:
    from mlflow import MlflowClient


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
    client = _registry(home, name)
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
        return confirm(home, client, name, release)
    change = Change("promote", number, release.champion, number, reason=reason, figures=figures, actor=actor)
    if canary is not None:
        settings = (schedule or CanarySchedule()).model_dump(mode="json")
        change = replace(change, kind="canary", champion=release.champion, weights={number: canary}, schedule=settings)
    elif shadow is not None:
        change = replace(change, kind="shadow", champion=release.champion, shadow={number: shadow})
    return carry_out(home, client, name, release, change, on_step)


def rollback(
    home: Home,
    name: str,
    *,
    to: int | None = None,
    expect: int | None = None,
    reason: str = "",
    emergency: bool = False,
    asked_at: float | None = None,
    actor: str | None = None,
    on_step: Say | None = None,
) -> Switch:
    """Switch back to the champion before, or to `to`; while a canary or shadow runs, end that instead.

    The version that is left is marked, so that no pipeline promotes it again. With `emergency` the registry is not
    asked: the gateways switch, and the event is written when the registry answers.

    Args:
        expect: do nothing unless this is the champion.
        asked_at: when the person decided, in seconds since 1970; a rollback since then was meant to do the same.

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
    client = _registry(home, name)
    release = fold(read_log(client, name))
    if release.champion is None:
        list_versions(client, name)  # an unknown name says so
        raise Refused(f"{name} has no champion to leave", f"turnout promote {name}")
    _check_expected(name, release, expect)
    arms = {**release.weights, **release.shadow}
    if arms and to in (None, release.champion):
        ended = Change("abort", release.champion, max(arms), release.champion, reason=reason, actor=actor)
        switch = carry_out(home, client, name, release, ended, on_step)
        drop_candidate(client, name, max(arms))
        return switch
    _check_not_done(name, release, to, expect, asked_at)
    target = to if to is not None else release.previous
    if target is None:
        raise Refused(
            f"{name} has no earlier champion than v{release.champion} that was not rolled back",
            f"name one: turnout rollback {name} --to VERSION (turnout versions {name} lists them)",
        )
    get_version(client, name, target)
    if target == release.champion:
        return replace(confirm(home, client, name, release), kind="rollback")
    change = Change("rollback", target, release.champion, target, reason=reason, actor=actor)
    return carry_out(home, client, name, release, change, on_step)


def _registry(home: Home, name: str) -> "MlflowClient":
    if never_used(home):  # asking for something that is not there must not make a registry
        raise unknown_name(check_name(name), ())
    return connect(home)


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


def _check_not_done(name: str, release: Release, to: int | None, expect: int | None, asked_at: float | None) -> None:
    """Two people who roll back in the same moment of panic mean one rollback, not two."""
    if release.kind != "rollback" or asked_at is None or to is not None or expect is not None:
        return
    if datetime.fromisoformat(release.timestamp).timestamp() > asked_at:
        raise RegistryConflict(
            f"{name} was rolled back to v{release.champion} at {release.timestamp}, after this was asked for",
            f"look at `turnout history {name}`; to go back further, run it again",
        )
