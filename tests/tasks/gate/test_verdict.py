"""The verdict as a whole: which rules there are, and what each refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.config import GateConfig
from tasks.gate import Verdict, judge
from tests.tasks.measured import END, WELL, losses, measured, prepared, proven

CUT = tuple(replace(answer, finish_reason="length") for answer in WELL)


def verdict(folder: Path, config: GateConfig | None = None, **given: Any) -> Verdict:
    """On a healthy version, but for what is `given`."""
    scores = given.pop("scores", None) or measured(folder, base=5.2, candidate=1.9)
    served, dataset = given.pop("served", None) or proven(), given.pop("dataset", None) or prepared(folder / "rows")
    return judge(config or GateConfig(), scores, served, dataset, **({"rolled_back": False} | given))


def test_a_healthy_version_passes_every_rule(tmp_path: Path) -> None:
    found = verdict(tmp_path)
    assert found.passed and not found.reason
    names = [rule.name for rule in found.rules]
    assert names == ["better_than_base", "not_worse_than_champion", "proof", "contract", "stop_rate"]


@pytest.mark.parametrize(
    ("name", "bad", "text"),
    [
        ("proof", {"served": proven(difference=0.3)}, "0.3000 away"),
        ("proof", {"served": proven(problem="it fails the proof by its template", answers=())}, "its template"),
        ("stop_rate", {"served": proven(answers=CUT)}, "0% of 2 answers on the engine ended by themselves"),
        ("stop_rate", {"served": proven(answers=())}, "asked for no answers"),
        ("not_rolled_back", {"rolled_back": True}, "turnout promote"),
    ],
)
def test_each_fault_is_refused_for_its_own_reason(tmp_path: Path, name: str, bad: dict[str, Any], text: str) -> None:
    found = verdict(tmp_path, **bad)
    assert [rule.name for rule in found.rules if not rule.passed] == [name]
    assert text in found.reason and not found.passed


def test_answers_without_an_end_are_refused(tmp_path: Path) -> None:
    found = verdict(tmp_path, dataset=prepared(tmp_path / "rows", [[5, 6], [5, END], [END, 6]]))
    (rule,) = (rule for rule in found.rules if not rule.passed)
    assert (rule.name, rule.figure, rule.limit) == ("contract", 2.0, 0.0)
    assert "2 training and 0 validation rows' answers do not end" in rule.text


def test_a_zero_adapter_is_not_better_than_its_base(tmp_path: Path) -> None:
    found = verdict(tmp_path, scores=measured(tmp_path, base=5.2, candidate=5.2))
    assert [rule.name for rule in found.rules if not rule.passed] == ["better_than_base"]


def test_a_judge_is_asked_only_about_what_else_passes(tmp_path: Path) -> None:
    config = GateConfig.model_validate({"judge": {"url": "http://127.0.0.1:9", "model": "j"}})
    found = verdict(tmp_path, config, scores=measured(tmp_path, base=5.2, candidate=losses(5.3)))
    assert not found.passed and "judge" not in [rule.name for rule in found.rules]
