from dataclasses import replace
from pathlib import Path

import pytest

from tasks.config import GateConfig
from tasks.gate import Rule
from tasks.gate.losses import loss_rules
from tests.tasks.measured import losses, measured
from turnout.errors import ScoringFailed
from turnout.references import Scores


def rules(scores: Scores, base: str | None = None, **settings: float | bool) -> dict[str, Rule]:
    return {rule.name: rule for rule in loss_rules(GateConfig.model_validate(settings), scores, base)}


@pytest.mark.filterwarnings("ignore:The BCa confidence interval")
@pytest.mark.parametrize(("candidate", "passes"), [(1.9, True), (5.2, False), (5.3, False), (float("nan"), False)])
def test_better_than_the_base(tmp_path: Path, candidate: float, passes: bool) -> None:
    assert rules(measured(tmp_path, base=5.2, candidate=candidate))["better_than_base"].passed is passes


def test_a_gain_that_only_some_rows_have_is_not_better(tmp_path: Path) -> None:
    by_luck = measured(tmp_path, base=5.2, candidate=losses(5.15, noise=0.5))
    rule = rules(by_luck)["better_than_base"]
    assert rule.figure and rule.figure > 0 and rule.interval and rule.interval[0] < 0 < rule.interval[1]
    assert not rule.passed and "95 % interval" in rule.text and "interval must be over 0.0000" in rule.text
    assert rules(measured(tmp_path, base=5.2, candidate=losses(4.2, noise=0.5)))["better_than_base"].passed


def test_the_margin_is_the_presets(tmp_path: Path) -> None:
    scores = measured(tmp_path, base=5.2, candidate=losses(1.9, noise=0.2))
    assert rules(scores, better_than_base_by=3.0)["better_than_base"].passed
    assert not rules(scores, better_than_base_by=3.29)["better_than_base"].passed


def test_one_row_shows_nothing(tmp_path: Path) -> None:
    rule = rules(measured(tmp_path, base=[200.0], candidate=[50.0]))["better_than_base"]
    assert not rule.passed and rule.interval is None and "at least 2 are needed" in rule.text


def test_without_the_rows_there_is_no_verdict(tmp_path: Path) -> None:
    scores = measured(tmp_path, base=5.2, candidate=1.9)
    with pytest.raises(ScoringFailed, match="does not hold each row's loss"):
        rules(replace(scores, rows_path=str(tmp_path / "gone.json")))


@pytest.mark.parametrize(
    ("candidate", "passes", "text"),
    [
        (1.8, True, ", better;"),
        (1.9, True, "no clear difference"),
        (1.915, True, ", worse;"),
        (1.93, False, ", worse;"),
    ],
)
def test_the_mean_decides_against_the_champion(tmp_path: Path, candidate: float, passes: bool, text: str) -> None:
    rule = rules(measured(tmp_path, base=5.2, candidate=candidate, champion=1.9))["not_worse_than_champion"]
    assert rule.passed is passes and text in rule.text and rule.interval


def test_worse_on_the_champions_own_rows_is_refused(tmp_path: Path) -> None:
    means = {"base": 5.2, "candidate": 1.5, "champion": 1.9}
    scores = measured(tmp_path, **means, own_candidate=losses(2.5, 9), own_champion=losses(2.0, 9))
    found = rules(replace(scores, own_left_out=3))
    rule = found["not_worse_on_champions_rows"]
    assert found["not_worse_than_champion"].passed and not rule.passed
    assert rule.figure == pytest.approx(0.5) and rule.interval
    assert "on the champion's own validation rows: eval loss 2.5000" in rule.text and "3 rows left out" in rule.text


def test_rows_that_cannot_be_had_are_told(tmp_path: Path) -> None:
    scores = replace(measured(tmp_path, base=5.2, candidate=1.9, champion=1.9), own_note="its dataset is gone")
    rule = rules(scores)["not_worse_on_champions_rows"]
    assert rule.passed and rule.figure is None and "its dataset is gone" in rule.text


def test_better_than_the_champion_is_asked_for_only_where_wanted(tmp_path: Path) -> None:
    better = measured(tmp_path / "better", base=5.2, candidate=losses(1.7, noise=0.1), champion=1.9)
    equal = measured(tmp_path / "equal", base=5.2, candidate=1.9, champion=1.9)
    assert "better_than_champion" not in rules(equal)
    assert rules(better, better_than_champion_by=0.0)["better_than_champion"].passed
    assert not rules(equal, better_than_champion_by=0.0)["better_than_champion"].passed


def test_another_base_needs_a_word(tmp_path: Path) -> None:
    scores = measured(tmp_path, base=5.2, candidate=1.9)
    assert rules(scores)["not_worse_than_champion"].passed
    other = rules(scores, "qwen")["not_worse_than_champion"]
    assert not other.passed and "gate.new_base" in other.text
    assert rules(scores, "qwen", new_base=True)["not_worse_than_champion"].passed
