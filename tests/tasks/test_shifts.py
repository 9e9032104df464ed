"""The figures of drift: what they see, and that small samples of one source do not drift."""

import numpy as np
import pytest

from tasks.shifts import Prompts, length_shift, loss_shift, vocabulary_shift
from turnout.references import Loss

TEMPLATE = [900, 901, 902]


def prompts(seed: int, count: int, *, longest: int = 60, first: int = 0, kinds: int = 300) -> Prompts:
    """Random prompts in a chat template, their tokens as unevenly frequent as words are."""
    random = np.random.default_rng(seed)
    lengths = random.integers(5, longest, count)
    return [[*TEMPLATE, *(first + random.zipf(1.3, size) % kinds).tolist(), *TEMPLATE] for size in lengths]


@pytest.mark.parametrize("count", [20, 60, 256])
@pytest.mark.parametrize("seed", range(3))
def test_another_sample_of_the_same_source_is_no_drift(seed: int, count: int) -> None:
    fresh, learnt = prompts(seed, count), prompts(100 + seed, 140)
    assert not length_shift(fresh, learnt, 0.05).drifted
    assert not vocabulary_shift(fresh, learnt, 0.05).drifted


def test_longer_prompts_are_drift_of_the_lengths_alone() -> None:
    fresh, learnt = prompts(1, 100, longest=120), prompts(2, 140)
    shift = length_shift(fresh, learnt, 0.2)
    assert shift.drifted
    assert shift.figure is not None and shift.limit == pytest.approx(
        0.213, abs=0.001
    )  # chance alone gives more than 0.2
    assert "medians" in shift.text and "0.2 is configured" in shift.text
    assert not vocabulary_shift(fresh, learnt, 0.3).drifted


def test_other_words_are_drift_however_much_the_template_repeats() -> None:
    fresh, learnt = prompts(1, 100, first=400, kinds=300), prompts(2, 140)
    shift = vocabulary_shift(fresh, learnt, 0.3)
    assert shift.drifted
    assert shift.figure == pytest.approx(1.0)  # nothing in common, though every prompt has the template's tokens
    assert not length_shift(fresh, learnt, 0.2).drifted


def test_a_limit_above_the_figure_is_no_drift() -> None:
    fresh, learnt = prompts(1, 100, longest=120), prompts(2, 140)
    figure = length_shift(fresh, learnt, 0.2).figure
    assert figure is not None
    assert not length_shift(fresh, learnt, figure + 0.01).drifted


def test_prompts_that_are_all_the_same_have_no_words_to_compare() -> None:
    same: Prompts = [TEMPLATE] * 30
    assert vocabulary_shift(same, same, 0.3).figure == 0


def test_a_loss_counts_above_its_limit_and_above_chance() -> None:
    own = Loss(1.0, 1000, 100)
    steady = loss_shift([15.0] * 30, [10] * 30, own, 0.2)
    assert (steady.figure, steady.limit, steady.drifted) == (0.5, 0.2, True)
    # Two rows of thirty are bad, which thirty rows of a steady source may well hold.
    uneven = loss_shift([10.0] * 28 + [60.0, 60.0], [10] * 30, own, 0.2)
    assert uneven.figure == pytest.approx(1 / 3, abs=1e-4)
    assert not uneven.drifted
    assert not loss_shift([5.0] * 30, [10] * 30, own, 0.2).drifted
