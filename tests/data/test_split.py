"""Properties of the split."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.split import is_validation, position, split
from turnout.errors import DataError

prompts = st.text(max_size=12).map(lambda text: hashlib.sha256(text.encode("utf-8", "replace")).hexdigest())
fractions = st.floats(0.01, 0.99)


@given(st.sets(prompts, min_size=2), st.sets(prompts), fractions)
def test_a_prompt_keeps_its_side_when_rows_are_added(old: set[str], new: set[str], fraction: float) -> None:
    before, moved_before = split(old, fraction)
    after, moved_after = split(old | new, fraction)
    changed = {prompt for prompt in old if (prompt in before) != (prompt in after)}
    # The prompt that a small set moved may go back; nothing else changes sides.
    assert len(changed) <= (moved_before is not None)
    if moved_after is None:
        assert after == {prompt for prompt in old | new if is_validation(prompt, fraction)}


@given(st.lists(prompts, min_size=2, unique=True), fractions)
def test_both_sides_have_a_prompt_and_the_order_does_not_matter(some: list[str], fraction: float) -> None:
    validation, _ = split(some, fraction)
    assert 0 < len(validation) < len(some)
    assert split(some[::-1] * 2, fraction)[0] == validation


@given(prompts, fractions, fractions)
def test_a_larger_fraction_takes_no_validation_prompt_back(prompt: str, one: float, other: float) -> None:
    smaller, larger = sorted((one, other))
    assert is_validation(prompt, larger) >= is_validation(prompt, smaller)


def test_the_share_of_validation_is_the_fraction() -> None:
    many = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(20_000)]
    share = sum(is_validation(prompt, 0.15) for prompt in many) / len(many)
    assert share == pytest.approx(0.15, abs=0.01)


def test_the_moved_prompt_is_the_one_nearest_to_the_other_side() -> None:
    some = [hashlib.sha256(text.encode()).hexdigest() for text in "abcdef"]
    validation, note = split(some, 1e-9)
    assert validation == {min(some, key=position)} and note and "none of the 6 prompts" in note
    validation, note = split(some, 1 - 1e-9)
    assert set(some) - validation == {max(some, key=position)} and note and "all 6 prompts" in note


def test_the_sides_are_the_same_for_ever() -> None:
    # Another salt or another reading of the digest would put yesterday's validation rows into training.
    digest = hashlib.sha256(b"turnout").hexdigest()
    assert position(digest) == pytest.approx(0.5318272589072315, abs=1e-12)


@pytest.mark.parametrize("prompts", [[], ["a"], ["a", "a"]])
def test_one_prompt_cannot_be_split(prompts: list[str]) -> None:
    with pytest.raises(DataError, match="at least 2 are needed"):
        split(prompts, 0.5)
