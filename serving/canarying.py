"""Steps canaries forward, makes them champions and aborts them, by what all gateways counted."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from registry.aliases import drop_candidate, write_view
from registry.releases import Kind, Release, append, fold, read_log
from registry.versions import tag_version
from serving.admin_calls import get
from serving.canary import ArmFigures, CanarySchedule, Decision, decide
from serving.control import gateway_urls
from serving.gateway.figures import BOUNDS_S
from serving.gateways import states
from serving.tokens import admin_token
from turnout.errors import RegistryConflict, TurnoutError
from turnout.paths import Home

if TYPE_CHECKING:
    from mlflow import MlflowClient

ACTOR = "turnout reconciler"


def tend(home: Home, client: "MlflowClient", name: str, release: Release) -> bool:
    """Do with the canary of `name` what is due; whether that changed anything.

    Any reconciler may: of several that see the same, one event takes effect.
    """
    if len(release.weights) != 1:
        return False
    ((number, weight),) = release.weights.items()
    schedule = _schedule(release)
    arms = figures_of(home, name, release.generation)
    champion = arms.get(release.champion or 0, ArmFigures(0, 0))
    canary = arms.get(number, ArmFigures(0, 0))
    decision = decide(schedule, weight, _held_s(release), champion, canary, BOUNDS_S)
    if decision.action == "hold":
        return False
    try:
        _append(client, name, release, number, decision)
    except RegistryConflict:
        return True  # somebody was first; the next pass reads what they did
    if decision.action == "abort":
        drop_candidate(client, name, number)
        tag_version(client, name, number, {"refused": f"canary aborted: {decision.reason}"})
    write_view(client, name, fold(read_log(client, name, after=release.head), release))
    return True


def figures_of(home: Home, name: str, event: int) -> dict[int, ArmFigures]:
    """What every arm of `name` did since `event`, summed over the gateways of TURNOUT_GATEWAYS, or of this home."""
    urls = gateway_urls()
    if not urls:
        return sum_figures(own_figures(home), name, event)
    told = []
    for url in urls:
        try:
            told.append(get(f"{url}/admin/figures", admin_token(home), 5.0, ("workers",)))
        except TurnoutError:
            continue  # what it counted is missing from the sample, which then takes longer to fill
    return sum_figures((each for answer in told for each in answer["workers"]), name, event)


def own_figures(home: Home) -> list[dict[str, Any]]:
    """The figures of every gateway worker of this home, as they tell them."""
    return [state["figures"] for state in states(home).values() if state]


def sum_figures(workers: Iterable[Mapping[str, Any]], name: str, event: int) -> dict[int, ArmFigures]:
    total: dict[int, ArmFigures] = {}
    for worker in workers:
        of_name = worker.get(name)
        if not of_name or of_name["event"] != event:
            continue
        for number, arm in of_name["arms"].items():
            had = total.get(int(number), ArmFigures(0, 0, (0,) * len(arm["seconds"])))
            total[int(number)] = ArmFigures(
                had.requests + arm["requests"],
                had.errors + arm["errors"],
                tuple(one + other for one, other in zip(had.seconds, arm["seconds"], strict=True)),
                had.seconds_sum + arm["seconds_sum"],
            )
    return total


def _append(client: "MlflowClient", name: str, release: Release, number: int, decision: Decision) -> None:
    kind: Kind = decision.action if decision.action != "hold" else "step"
    goes_on = decision.action == "step"
    append(
        client,
        name,
        kind=kind,
        champion=number if decision.action == "promote" else release.champion,
        parent=release.head,
        weights={number: decision.weight} if goes_on and decision.weight is not None else None,
        schedule=release.schedule if goes_on else None,
        actor=ACTOR,
        reason=decision.reason,
        figures=decision.figures,
    )


def _schedule(release: Release) -> CanarySchedule:
    try:
        return CanarySchedule.model_validate(release.schedule)
    except ValidationError:  # another version of Turnout wrote it
        return CanarySchedule()


def _held_s(release: Release) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(release.timestamp)).total_seconds()
