"""The proof's figures and limits, apart from any engine."""

import pytest

from serving.client import Continuation
from serving.measure import mean_distance, mean_loss
from serving.proof import check_effect, check_parity
from serving.quick import QuickRecord, shifts
from turnout.errors import ProofFailed


def test_losses_weigh_tokens_not_rows() -> None:
    loss = mean_loss([[-1.0, -1.0, -1.0], [-5.0]])
    assert (loss.nats, loss.tokens) == (2.0, 4)
    assert mean_distance([[-1.0, -2.0], [-3.0]], [[-1.5, -2.0], [-2.0]]) == 0.5


@pytest.mark.parametrize("served", [1.1, 0.9, float("nan"), float("inf")])
def test_parity_holds_within_the_tolerance_only(served: float) -> None:
    check_parity("x-v1", served_nats=1.019, trained_nats=1.0, tolerance=0.02)
    with pytest.raises(ProofFailed, match=r"parity: .* the limit is 0\.02"):
        check_parity("x-v1", served_nats=served, trained_nats=1.0, tolerance=0.02)


def test_an_effect_must_exceed_the_engines_own_noise() -> None:
    base = [[-1.0, -2.0]]
    assert check_effect("x-v1", base, base, [[-1.1, -2.0]]) == (pytest.approx(0.05), 0.001)
    with pytest.raises(ProofFailed, match=r"effect: .*by 0.05000 nats a token, and must by 0.20000"):
        check_effect("x-v1", base, [[-1.2, -2.0]], [[-1.1, -2.0]])
    with pytest.raises(ProofFailed, match="effect"):
        check_effect("x-v1", base, base, base)


def test_greedy_tokens_are_compared_up_to_where_they_part() -> None:
    before = QuickRecord([], (1,), (5, 6, 7), (-0.1, -0.7, -0.2))
    near_tie = Continuation((1,), (5, 8, 9), (-0.1, -0.69, -3.0), ({5: -0.1}, {8: -0.69, 6: -0.71}, {9: -3.0}))
    assert shifts(before, near_tie) == [0.0, pytest.approx(0.01)]
    elsewhere = Continuation((1,), (4,), (-0.1,), ({4: -0.1},))
    assert shifts(before, elsewhere) == [float("inf")]
    assert shifts(before, Continuation((1,), (), (), ())) == [float("inf")]
