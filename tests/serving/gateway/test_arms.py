"""Arms are sticky, and get the share that their weight says."""

from hypothesis import given, settings
from hypothesis import strategies as st

from serving.gateway.arms import choose_version

percents = st.floats(0, 100, allow_nan=False)


@settings(deadline=None)
@given(st.text(), percents, percents)
def test_raising_the_weight_moves_nobody_back(key: str, one: float, other: float) -> None:
    low, high = sorted((one, other))
    before = choose_version("incidents", 1, [(2, low)], key)
    after = choose_version("incidents", 1, [(2, high)], key)
    assert (before, after) in {(1, 1), (1, 2), (2, 2)}


@settings(deadline=None)
@given(st.text(), st.lists(percents, min_size=2, max_size=2), percents)
def test_raising_one_weight_moves_keys_to_that_version_only(key: str, weights: list[float], more: float) -> None:
    before = choose_version("incidents", 1, [(2, weights[0]), (3, weights[1])], key)
    after = choose_version("incidents", 1, [(2, weights[0]), (3, max(weights[1], more))], key)
    assert after in (before, 3)


@settings(deadline=None)
@given(st.text())
def test_the_ends_of_the_scale(key: str) -> None:
    assert choose_version("incidents", 1, [(2, 0)], key) == 1
    assert choose_version("incidents", 1, [(2, 100)], key) == 2


def test_a_weight_is_the_share_of_the_keys() -> None:
    chosen = [choose_version("incidents", 1, [(2, 12.5)], f"user-{number}") for number in range(8000)]
    assert 900 <= chosen.count(2) <= 1100


def test_names_have_arms_of_their_own() -> None:
    keys = [f"user-{number}" for number in range(200)]
    one, other = ([choose_version(name, 1, [(2, 50)], key) for key in keys] for name in ("incidents", "support"))
    assert one != other
