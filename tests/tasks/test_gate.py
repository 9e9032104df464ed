import pytest

from tasks.config import GateConfig
from tasks.gate import Rule, judge
from turnout.references import Loss, Scores

PROVEN = Rule("proof", True, 0.001, 0.02, "served as trained")
UNPROVEN = Rule("proof", False, 0.3, 0.02, "served loss is off by 0.3")


def scores(base: float, candidate: float, champion: float | None = None) -> Scores:
    def loss(nats: float) -> Loss:
        return Loss(nats, 1000, 24)

    return Scores(
        loss(base), loss(candidate), None if champion is None else loss(champion), loss(base), loss(candidate)
    )


@pytest.mark.parametrize(
    ("measured", "passes"),
    [
        (scores(5.2, 1.9), True),
        (scores(5.2, 5.2), False),
        (scores(5.2, 5.3), False),
        (scores(5.2, 1.9, 1.9), True),
        (scores(5.2, 1.92, 1.9), True),
        (scores(5.2, 1.93, 1.9), False),
        (scores(5.2, float("nan")), False),
    ],
)
def test_losses_decide(measured: Scores, passes: bool) -> None:
    verdict = judge(GateConfig(), measured, proof=PROVEN, rolled_back=False)
    assert verdict.passed is passes
    assert bool(verdict.reason) is not passes


def test_margins_are_the_presets() -> None:
    strict = GateConfig(better_than_base_by=4.0, worse_than_champion_by=0.0)
    assert not judge(strict, scores(5.2, 1.9), proof=PROVEN, rolled_back=False).passed
    assert not judge(strict, scores(9.0, 1.91, 1.9), proof=PROVEN, rolled_back=False).passed


def test_an_unproven_version_is_refused_whatever_its_loss() -> None:
    verdict = judge(GateConfig(), scores(5.2, 1.9), proof=UNPROVEN, rolled_back=False)
    assert not verdict.passed
    assert verdict.reason == "served loss is off by 0.3"


def test_a_rolled_back_version_is_not_promoted_by_a_run() -> None:
    verdict = judge(GateConfig(), scores(5.2, 1.9), proof=PROVEN, rolled_back=True)
    assert not verdict.passed
    assert "turnout promote" in verdict.reason
