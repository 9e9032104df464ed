"""`turnout promote` and `turnout rollback`: switch traffic to a version, and back."""

import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.commands.options import Debug, Json
from flows.output import TerminalWatcher, answer, err, out
from turnout.errors import BadInput
from turnout.paths import home

if TYPE_CHECKING:
    from serving.canary import CanarySchedule

PROMOTE_EXAMPLES = """
Examples:

  turnout promote incidents                   the candidate, for all requests

  turnout promote incidents v3 --expect v2    only while v2 is the champion

  turnout promote incidents v3 --canary 5 --hold 600 --max-error-rate 0.01

  turnout promote incidents v3 --shadow 10    copies of requests only
"""
ROLLBACK_EXAMPLES = """
Examples:

  turnout rollback incidents --reason "answers in the wrong format"

  turnout rollback incidents --to v1

  turnout rollback incidents --emergency          while MLflow is down
"""

Name = Annotated[str, typer.Argument(help="The adapter's name.")]
Expect = Annotated[str | None, typer.Option(help="Do it only if this version is the champion now.")]
Reason = Annotated[str, typer.Option(help="Why, for the release log.")]


def add_to(app: typer.Typer) -> None:
    app.command(epilog=PROMOTE_EXAMPLES)(promote)
    app.command(epilog=ROLLBACK_EXAMPLES)(rollback)


def promote(
    name: Name,
    version: Annotated[str | None, typer.Argument(help="As 3, v3 or NAME-v3; the candidate if left out.")] = None,
    canary: Annotated[float | None, typer.Option(help="Begin with this percent of the requests.")] = None,
    steps: Annotated[
        str | None, typer.Option(help="The canary's percents, as in 5,25,50,100, which is the default.")
    ] = None,
    hold: Annotated[float | None, typer.Option(help="Seconds that each step lasts at least; 300 if left out.")] = None,
    min_requests: Annotated[
        int | None, typer.Option(help="Requests that each step needs at least; 50 if left out.")
    ] = None,
    max_error_rate: Annotated[
        float | None, typer.Option(help="Abort above the champion's error rate plus this; 0.02 if left out.")
    ] = None,
    max_latency_ratio: Annotated[
        float | None, typer.Option(help="Abort above this many times the champion's p95 latency; 1.5 if left out.")
    ] = None,
    sticky: Annotated[
        Literal["request", "key"] | None,
        typer.Option(help="Where a request names no user: an arm for each request (default) or client key."),
    ] = None,
    shadow: Annotated[float | None, typer.Option(help="Copy this percent of the requests to the version.")] = None,
    expect: Expect = None,
    reason: Reason = "",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Switch a name's traffic to a version: all of it at once, step by step (--canary), or copies only (--shadow)."""
    from registry.names import parse_version

    limits = {
        "hold_s": hold,
        "min_requests": min_requests,
        "max_error_rate": max_error_rate,
        "max_latency_ratio": max_latency_ratio,
        "sticky": sticky,
    }
    schedule = _schedule(canary, shadow, steps, limits)
    number = parse_version(name, version) if version is not None else None
    expected = parse_version(name, expect) if expect is not None else None
    from serving import releasing  # after the checks: a wrong option is answered at once
    from tasks.announcing import outcome

    watcher = TerminalWatcher()
    watcher.begin("promote")
    try:
        switch = releasing.promote(
            home(),
            name,
            number,
            expect=expected,
            canary=canary,
            schedule=schedule,
            shadow=shadow,
            reason=reason,
            on_step=watcher.update,
        )
    finally:
        watcher.close()
    answer(outcome(switch, canary or shadow), json, _show)


def rollback(
    name: Name,
    to: Annotated[str | None, typer.Option(help="The version to go back to; the champion before if left out.")] = None,
    expect: Expect = None,
    reason: Reason = "",
    emergency: Annotated[
        bool, typer.Option("--emergency", help="Do it while MLflow is down; the log gets it when MLflow is back.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Switch a name's traffic back to the champion before, and mark the one that it leaves as rolled back.

    While a canary or a shadow runs, that is ended instead.
    """
    asked_at = time.time()
    from registry.names import parse_version

    target = parse_version(name, to) if to is not None else None
    expected = parse_version(name, expect) if expect is not None else None
    from serving import releasing  # after the checks: a wrong option is answered at once
    from tasks.announcing import outcome

    watcher = TerminalWatcher()
    watcher.begin("rollback")
    try:
        switch = releasing.rollback(
            home(),
            name,
            to=target,
            expect=expected,
            reason=reason,
            emergency=emergency,
            asked_at=asked_at,
            on_step=watcher.update,
        )
    finally:
        watcher.close()
    answer(outcome(switch), json, _show)


def _schedule(
    canary: float | None, shadow: float | None, steps: str | None, limits: dict[str, Any]
) -> "CanarySchedule | None":
    """The canary's schedule; None where none was asked for.

    Raises:
        BadInput: the options contradict each other, or a value is out of its range.
    """
    from serving.canary import check_shares, schedule_from

    check_shares(canary, shadow)
    if canary is not None:
        return schedule_from(canary, _percents(steps), **limits)
    given = [key for key, value in {"steps": steps, **limits}.items() if value is not None]
    if given:
        option = f"--{given[0].removesuffix('_s').replace('_', '-')}"
        raise BadInput(f"{option} is for canaries, and there is no --canary", "add --canary 5, or leave it out")
    return None


def _percents(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise BadInput(f"--steps {text!r} is not a list of percents", "write it as 5,25,50,100") from error


def _show(result: dict[str, Any]) -> None:
    from tasks.announcing import notes, sentence

    out.print(sentence(result))
    for note in notes(result):
        err.print(note, style="yellow")
