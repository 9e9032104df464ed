"""Whether a canary holds, steps, becomes the champion or is aborted: pure, from what both arms did."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from turnout.errors import BadInput

QUANTILE = 0.95


class CanarySchedule(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """How a canary gets more and more of a name's requests, and what ends it.

    `steps` are percent of the requests, ascending; when the last one is done the canary becomes the champion.
    A step is done after `hold_s` seconds and `min_requests` requests to the canary. The canary is aborted when its
    error rate is more than `max_error_rate` above the champion's, or the 95th percentile of its seconds a request
    is more than `max_latency_ratio` times the champion's. `sticky: key` keeps a client key on one arm where its
    requests name no user.
    """

    steps: tuple[float, ...] = (5, 25, 50, 100)
    hold_s: float = Field(300, ge=0)
    min_requests: int = Field(50, ge=1)
    max_error_rate: float = Field(0.02, ge=0, le=1)
    max_latency_ratio: float = Field(1.5, ge=1)
    sticky: Literal["request", "key"] = "request"

    @model_validator(mode="after")
    def steps_ascend_to_all_at_most(self) -> Self:
        ends = (0.0, *self.steps)
        if not self.steps or any(after <= before for before, after in zip(ends, self.steps, strict=False)):
            raise ValueError(f"steps={_listed(self.steps)} must ascend from above 0, as in 5,25,50,100")
        if self.steps[-1] > 100:
            raise ValueError(f"steps={_listed(self.steps)} goes above 100 percent")
        return self

    @property
    def abort_sample(self) -> int:
        """Requests that an arm needs to be judged early: a fifth of `min_requests`, at least 10, never more than it."""
        return min(self.min_requests, max(10, self.min_requests // 5))


def check_shares(canary: float | None, shadow: float | None) -> None:
    """Raises BadInput where a version would be both a canary and a shadow, or a share is no percent of requests."""
    for what, percent in (("canary", canary), ("shadow", shadow)):
        if percent is not None and not 0 < percent <= 100:
            raise BadInput(f"{what} {percent:g} is not a percent of the requests", "give more than 0, at most 100")
    if canary is not None and shadow is not None:
        raise BadInput(
            f"canary {canary:g} and shadow {shadow:g} exclude each other",
            "shadow the version first, then make it a canary",
        )


def schedule_from(percent: float, steps: Sequence[float] | None = None, **given: Any) -> CanarySchedule:
    """The schedule of a canary that begins at `percent`, then goes through those of `steps` above it.

    `given` are other fields of the schedule; None stands for the default.

    Raises:
        BadInput: a step lies below `percent`, or a value is out of its range.
    """
    if steps is not None and not all(step >= percent for step in steps):
        raise BadInput(
            f"the steps {_listed(steps)} are not all above the {percent:g} percent that the canary begins with",
            "leave the others out, or begin lower",
        )
    above = (step for step in steps or CanarySchedule().steps if step > percent)
    values = {key: value for key, value in given.items() if value is not None}
    try:
        return CanarySchedule(steps=(percent, *above), **values)
    except ValidationError as error:
        problems = "; ".join(_problem(each["loc"], each["msg"], each["input"]) for each in error.errors())
        raise BadInput(f"this canary schedule cannot be: {problems}", "see `turnout promote --help`") from error


@dataclass(frozen=True)
class ArmFigures:
    """What one version did: `seconds` counts its answers in each bucket of a latency histogram, `seconds_sum` adds up
    their seconds. `errors` are some of the `requests`."""

    requests: int
    errors: int
    seconds: tuple[int, ...] = ()
    seconds_sum: float = 0.0

    @property
    def error_rate(self) -> float:
        return self.errors / self.requests if self.requests else 0.0


@dataclass(frozen=True)
class Decision:
    """`weight` is the canary's next percent where the action is `step`. `figures` are plain values for the log."""

    action: Literal["hold", "step", "promote", "abort"]
    weight: float | None
    reason: str
    figures: dict[str, Any] = field(default_factory=dict)


def decide(
    schedule: CanarySchedule,
    weight: float,
    held_s: float,
    champion: ArmFigures,
    canary: ArmFigures,
    bounds_s: Sequence[float],
) -> Decision:
    """What is to happen to a canary that has had `weight` percent for `held_s` seconds.

    An abort never waits for `hold_s`. It needs `abort_sample` requests to the canary, and before `min_requests`
    more than one error, so that a single bad request ends no canary; for the latency also as many to the champion. A
    champion with fewer counts as one without errors, and latencies are not compared.

    Args:
        bounds_s: upper bounds of the histogram's buckets, in seconds; one more bucket may hold what is above them.
    """
    ratio = _latency_ratio(champion, canary, bounds_s)
    figures = _figures(champion, canary, bounds_s, ratio)
    if why := _why_abort(schedule, champion, canary, ratio):
        return Decision("abort", None, why, figures)
    if held_s < schedule.hold_s:
        return Decision("hold", None, f"{held_s:.0f} of {schedule.hold_s:g} s at {weight:g} %", figures)
    if canary.requests < schedule.min_requests:
        why = f"{canary.requests} of {schedule.min_requests} requests at {weight:g} %"
        return Decision("hold", None, why, figures)
    done = f"{canary.requests} requests at {weight:g} % within the limits"
    following = next((step for step in schedule.steps if step > weight), None)
    if following is None:
        return Decision("promote", None, done, figures)
    return Decision("step", following, done, figures)


def quantile(counts: Sequence[int], bounds_s: Sequence[float], share: float = QUANTILE) -> float | None:
    """The seconds that `share` of the requests stayed below, straight between a bucket's bounds; None without any.

    What is above the last bound counts as the last bound.
    """
    rank, seen = share * sum(counts), 0
    for index, count in enumerate(counts[: len(bounds_s)]):
        if count and seen + count >= rank:
            lower = bounds_s[index - 1] if index else 0.0
            return lower + (bounds_s[index] - lower) * (rank - seen) / count
        seen += count
    return bounds_s[-1] if sum(counts) else None


def _why_abort(schedule: CanarySchedule, champion: ArmFigures, canary: ArmFigures, ratio: float | None) -> str:
    """Why the canary must end, or nothing."""
    if canary.requests < schedule.abort_sample:
        return ""
    compared = champion.requests >= schedule.abort_sample
    usual = champion.error_rate if compared else 0.0
    if canary.error_rate > usual + schedule.max_error_rate and (
        canary.errors > 1 or canary.requests >= schedule.min_requests
    ):
        return (
            f"{canary.errors} of {canary.requests} requests failed ({canary.error_rate:.1%}), the champion's "
            f"{usual:.1%} and {schedule.max_error_rate:.1%} more are the limit"
        )
    if compared and ratio is not None and ratio > schedule.max_latency_ratio:
        return (
            f"the p95 of its seconds a request is {ratio:.2f} times the champion's over {canary.requests} requests, "
            f"{schedule.max_latency_ratio:g} times is the limit"
        )
    return ""


def _latency_ratio(champion: ArmFigures, canary: ArmFigures, bounds_s: Sequence[float]) -> float | None:
    own, other = quantile(canary.seconds, bounds_s), quantile(champion.seconds, bounds_s)
    return own / other if own is not None and other else None


def _figures(
    champion: ArmFigures, canary: ArmFigures, bounds_s: Sequence[float], ratio: float | None
) -> dict[str, Any]:
    def of(arm: ArmFigures) -> dict[str, Any]:
        p95_s = _rounded(quantile(arm.seconds, bounds_s))
        rate = round(arm.error_rate, 6)
        return {"requests": arm.requests, "errors": arm.errors, "error_rate": rate, "p95_s": p95_s}

    return {"champion": of(champion), "canary": of(canary), "latency_ratio": _rounded(ratio)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _listed(steps: Sequence[float]) -> str:
    return ",".join(f"{step:g}" for step in steps)


def _problem(location: tuple[int | str, ...], message: str, value: Any) -> str:
    what = message.removeprefix("Value error, ")
    return f"{location[0]}: {what} (got {value!r})" if location else what
