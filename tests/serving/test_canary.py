import itertools
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.canary import ArmFigures, CanarySchedule, check_shares, decide, quantile, schedule_from
from turnout.errors import BadInput

BOUNDS_S = tuple(0.01 * 1.25**index for index in range(50))
SCHEDULE = CanarySchedule(hold_s=60, min_requests=50)


def histogram(seconds: list[float]) -> tuple[int, ...]:
    counts = [0] * (len(BOUNDS_S) + 1)
    for value in seconds:
        counts[bisect_left(BOUNDS_S, value)] += 1
    return tuple(counts)


def arm(requests: int, errors: int = 0, seconds: float = 1.0) -> ArmFigures:
    return ArmFigures(requests, errors, histogram([seconds] * requests), seconds * requests)


def action(champion: ArmFigures, canary: ArmFigures, *, held_s: float = 60, weight: float = 5) -> str:
    return decide(SCHEDULE, weight, held_s, champion, canary, BOUNDS_S).action


def test_a_good_canary_goes_through_its_steps_and_becomes_the_champion() -> None:
    weights, weight = [], 5.0
    for _ in range(3):
        decision = decide(SCHEDULE, weight, 60, arm(900), arm(50), BOUNDS_S)
        assert decision.action == "step"
        assert decision.weight is not None
        weights.append(weight := decision.weight)
    assert weights == [25, 50, 100]
    assert action(arm(0), arm(50), weight=100) == "promote"


def test_it_holds_for_time_and_for_requests() -> None:
    assert action(arm(900), arm(50), held_s=59.9) == "hold"
    assert action(arm(900), arm(49), held_s=6000) == "hold"
    assert action(arm(900), arm(0), held_s=6000) == "hold"


def test_errors_abort_at_once_from_the_early_sample_on() -> None:
    assert action(arm(900), arm(9, errors=9), held_s=0) == "hold"
    assert action(arm(900), arm(10, errors=2), held_s=0) == "abort"
    assert action(arm(900), arm(10, errors=1), held_s=0) == "hold"  # one bad request is no verdict
    assert action(arm(900), arm(50, errors=1), held_s=0) == "hold"
    assert action(arm(900), arm(50, errors=2), held_s=0) == "abort"


def test_errors_that_the_champion_makes_too_do_not_abort() -> None:
    assert action(arm(900, errors=450), arm(50, errors=25)) == "step"
    assert action(arm(9, errors=9), arm(50, errors=25)) == "abort"  # too few to say what is usual


def test_a_slow_canary_aborts_once_both_arms_can_be_judged() -> None:
    assert action(arm(900, seconds=1), arm(10, seconds=2), held_s=0) == "abort"
    assert action(arm(900, seconds=1), arm(9, seconds=2), held_s=0) == "hold"
    assert action(arm(9, seconds=1), arm(50, seconds=2)) == "step"
    assert action(arm(900, seconds=1), arm(50, seconds=1.2)) == "step"


def test_one_request_can_be_the_whole_sample() -> None:
    schedule = CanarySchedule(hold_s=0, min_requests=1)
    assert decide(schedule, 5, 0, arm(100), arm(1, errors=1), BOUNDS_S).action == "abort"
    assert decide(schedule, 5, 0, arm(100), arm(1), BOUNDS_S).action == "step"


def test_a_decision_carries_the_figures_of_both_arms() -> None:
    decision = decide(SCHEDULE, 5, 60, arm(200, errors=2, seconds=1), arm(50, errors=5, seconds=2), BOUNDS_S)
    champion, canary = decision.figures["champion"], decision.figures["canary"]
    assert (champion["requests"], champion["errors"], champion["error_rate"]) == (200, 2, 0.01)
    assert (canary["requests"], canary["errors"], canary["error_rate"]) == (50, 5, 0.1)
    assert champion["p95_s"] == pytest.approx(1, rel=0.25)
    assert decision.figures["latency_ratio"] == pytest.approx(2, rel=0.25)
    assert "5 of 50" in decision.reason


def test_figures_of_idle_arms_are_none() -> None:
    figures = decide(SCHEDULE, 5, 60, arm(0), arm(0), BOUNDS_S).figures
    assert (figures["canary"]["p95_s"], figures["latency_ratio"]) == (None, None)


arms = st.builds(
    lambda ok, failed, seconds: ArmFigures(ok + failed, failed, histogram([seconds] * (ok + failed)), 0.0),
    st.integers(0, 300),
    st.integers(0, 300),
    st.floats(0.001, 1000),
)
schedules = st.builds(
    lambda steps, hold_s, requests: CanarySchedule(steps=tuple(sorted(steps)), hold_s=hold_s, min_requests=requests),
    st.sets(st.integers(1, 100), min_size=1, max_size=5),
    st.floats(0, 100),
    st.integers(1, 300),
)


@given(schedules, st.floats(0.1, 100), st.floats(0, 200), arms, arms)
def test_going_on_is_always_earned(
    schedule: CanarySchedule, weight: float, held_s: float, champion: ArmFigures, canary: ArmFigures
) -> None:
    decision = decide(schedule, weight, held_s, champion, canary, BOUNDS_S)
    if decision.action in ("step", "promote"):
        assert held_s >= schedule.hold_s
        assert canary.requests >= schedule.min_requests
        assert canary.error_rate <= champion.error_rate + schedule.max_error_rate
    if decision.action == "step":
        assert decision.weight in schedule.steps
        assert decision.weight > weight
    else:
        assert decision.weight is None
    assert (decision.action == "promote") <= (weight >= schedule.steps[-1])


@given(schedules, st.floats(0.1, 100), st.floats(0, 200), arms, arms)
def test_an_abort_waits_for_no_time(
    schedule: CanarySchedule, weight: float, held_s: float, champion: ArmFigures, canary: ArmFigures
) -> None:
    actions = {decide(schedule, weight, held, champion, canary, BOUNDS_S).action for held in (0, held_s, 1e6)}
    assert actions == {"abort"} or "abort" not in actions


@given(schedules, st.floats(0.1, 100), arms, arms, st.integers(1, 50))
def test_more_errors_never_rescue_a_canary(
    schedule: CanarySchedule, weight: float, champion: ArmFigures, canary: ArmFigures, more: int
) -> None:
    worse = ArmFigures(canary.requests, min(canary.requests, canary.errors + more), canary.seconds, 0.0)
    if decide(schedule, weight, 0, champion, canary, BOUNDS_S).action == "abort":
        assert decide(schedule, weight, 0, champion, worse, BOUNDS_S).action == "abort"


@given(st.lists(st.floats(0.001, 500), min_size=1, max_size=300))
def test_the_quantile_lies_in_the_bucket_of_the_true_one(seconds: list[float]) -> None:
    true = sorted(seconds)[max(0, -(-len(seconds) * 95 // 100) - 1)]
    index = bisect_left(BOUNDS_S, true)
    found = quantile(histogram(seconds), BOUNDS_S)
    assert found is not None
    lower = BOUNDS_S[index - 1] if index else 0.0
    assert lower <= found <= BOUNDS_S[index] * (1 + 1e-9)


@given(st.lists(st.floats(0.001, 900), min_size=1), st.floats(1, 3))
def test_slower_requests_never_lower_the_quantile(seconds: list[float], factor: float) -> None:
    before = quantile(histogram(seconds), BOUNDS_S)
    after = quantile(histogram([value * factor for value in seconds]), BOUNDS_S)
    assert before is not None
    assert after is not None
    assert after >= before * (1 - 1e-9)


def test_what_is_above_the_last_bound_counts_as_it() -> None:
    assert quantile(histogram([10_000.0]), BOUNDS_S) == BOUNDS_S[-1]
    assert quantile((0, 0), BOUNDS_S) is None


@given(st.floats(0.1, 100), st.one_of(st.none(), st.sets(st.integers(1, 100), min_size=1).map(sorted)))
def test_a_schedule_from_a_percent_begins_with_it_and_ascends(percent: float, steps: list[float] | None) -> None:
    if steps is not None and steps[0] < percent:
        with pytest.raises(BadInput, match="above"):
            schedule_from(percent, steps)
        return
    made = schedule_from(percent, steps).steps
    assert made[0] == percent
    assert all(before < after for before, after in itertools.pairwise(made))
    assert set(made[1:]) <= set(steps or (5, 25, 50, 100))


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"steps": [5, 50, 20]}, "ascend"),
        ({"steps": [5, 120]}, "above 100"),
        ({"steps": [5, float("nan")]}, "above the 5 percent"),
        ({"hold_s": -1}, "hold_s.*got -1"),
        ({"min_requests": 0}, "min_requests"),
        ({"max_error_rate": 2}, "max_error_rate"),
        ({"max_latency_ratio": 0.5}, "max_latency_ratio"),
        ({"sticky": "user"}, "sticky"),
    ],
)
def test_schedules_that_cannot_be_are_named(given_: dict[str, object], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        schedule_from(5, **given_)  # type: ignore[arg-type]


@pytest.mark.parametrize("shares", [(0, None), (101, None), (None, -1), (float("nan"), None), (5, 5)])
def test_shares_that_cannot_be(shares: tuple[float | None, float | None]) -> None:
    with pytest.raises(BadInput):
        check_shares(*shares)


def test_shares_that_can_be() -> None:
    check_shares(None, None)
    check_shares(100, None)
    check_shares(None, 0.5)
