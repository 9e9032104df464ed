from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from serving.config import GuardConfig
from serving.guard.deciding import RELIEF, Decision, Look, Pressure, Standing, decide

CONFIG = GuardConfig()
EVERY_S = 30.0


def seen(share: float, growth: float = 1.0, engine: str = "one") -> Look:
    return Look(engine, (Pressure("the host's memory", 0.2, 0.0), Pressure("its limit", share, growth)))


def looks_at(shares: list[float], growth: float = 1.0) -> Iterator[tuple[float, Decision]]:
    """One engine over time, looked at again at once after something was done, as the guard does."""
    standings: dict[str, Standing] = {}
    for number, share in enumerate(shares):
        for _ in range(2):
            decision = decide(CONFIG, standings, [seen(share, growth)], number * EVERY_S)
            standings = decision.standings
            yield number * EVERY_S, decision
            if not decision.clear:
                break


@pytest.mark.parametrize(
    ("before", "share", "state", "clears"),
    [
        ("fine", 0.84, "fine", False),
        ("fine", 0.85, "clearing", True),
        ("fine", 0.99, "clearing", True),  # cleared first, also where it is to be restarted
        ("clearing", 0.81, "clearing", True),
        ("clearing", 0.79, "fine", False),
        ("draining", 0.81, "clearing", True),
        ("draining", 0.5, "fine", False),
    ],
)
def test_an_engine_is_cleared_past_the_line(before: str, share: float, state: str, clears: bool) -> None:
    decision = decide(CONFIG, {"one": Standing(before)}, [seen(share)], 1000.0)  # type: ignore[arg-type]  # a table's text
    assert (decision.standings["one"].state, bool(decision.clear), decision.drain) == (state, clears, None)


@pytest.mark.parametrize(
    ("share", "growth", "ago_s", "drains"),
    [
        (0.95, 0.5, 0, True),
        (0.95, 0.04, 0, False),  # a restart would give nothing back
        (1.5, 0.5, 0, False),  # it would be past the line again
        (0.94, 0.5, 0, False),
        (0.99, 0.5, 599, True),
        (0.99, 0.5, 600, False),  # it is cleared first, once more
    ],
)
def test_one_that_was_cleared_is_restarted_before_the_limit(
    share: float, growth: float, ago_s: float, drains: bool
) -> None:
    decision = decide(CONFIG, {"one": Standing("clearing", 1000.0)}, [seen(share, growth)], 1000.0 + ago_s)
    assert (decision.drain == "one") == drains
    assert decision.standings["one"].state == ("draining" if drains else "clearing")


def test_the_fullest_is_restarted_alone() -> None:
    before = {name: Standing("clearing", 0.0) for name in ("one", "two", "three")}
    full = [seen(0.96, engine="one"), seen(0.99, engine="two"), seen(1.2, 0.0, engine="three")]
    decision = decide(CONFIG, before, full, 1.0)
    assert decision.drain == "two"
    assert [each.state for each in decision.standings.values()] == ["clearing", "draining", "clearing"]


def test_the_growth_counts_under_the_limit_that_is_near() -> None:
    look = Look("one", (Pressure("the host's memory", 0.97, 0.01), Pressure("its limit", 0.9, 0.6)))
    assert decide(CONFIG, {"one": Standing("clearing", 0.0)}, [look], 1.0).drain is None


def test_engines_that_are_gone_are_forgotten() -> None:
    assert decide(CONFIG, {"gone": Standing("draining", 0.0)}, [], 1.0) == Decision({})


@given(st.lists(st.floats(0, 2), min_size=1, max_size=200), st.floats(0, 1))
def test_it_never_flaps(shares: list[float], growth: float) -> None:
    cleared: list[float] = []
    state = "fine"
    for number, (now, decision) in enumerate(looks_at(shares, growth)):
        share = shares[round(now / EVERY_S)]
        standing = decision.standings["one"]
        assert not (decision.clear and decision.drain)
        if decision.clear:
            assert share >= CONFIG.clear_at - RELIEF
            assert not cleared or now - cleared[-1] >= CONFIG.clear_every_s
            cleared.append(now)
        if decision.drain:
            assert share >= CONFIG.drain_at and growth > 0 and cleared, number
        if state == "fine" and standing.state != "fine":
            assert share >= CONFIG.clear_at
        if state != "fine" and standing.state == "fine":
            assert share < CONFIG.clear_at - RELIEF
        state = standing.state


@given(st.lists(st.floats(0.801, 0.949), min_size=2, max_size=100))
def test_between_the_lines_the_state_changes_once_at_most(shares: list[float]) -> None:
    states = [decision.standings["one"].state for _, decision in looks_at(shares)]
    assert sum(one != other for one, other in pairwise(states)) <= 1


def test_it_clears_before_it_drains() -> None:
    with pytest.raises(ValidationError, match=r"clear_at=0.95 is not below serving.guard.drain_at=0.95"):
        GuardConfig(clear_at=0.95)
