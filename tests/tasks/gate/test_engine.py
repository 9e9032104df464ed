from dataclasses import replace
from pathlib import Path

from tasks.gate.engine import contract_rule, proof_rule
from tests.tasks.measured import END, prepared, proven


def test_the_present_tolerance_counts() -> None:
    assert proof_rule(proven(difference=0.015)).passed
    rule = proof_rule(replace(proven(difference=0.015), tolerance=0.01))
    assert not rule.passed and (rule.figure, rule.limit) == (0.015, 0.01)
    assert not proof_rule(proven(difference=float("nan"))).passed
    assert not proof_rule(proven(difference=None, eval_loss=None)).passed


def test_the_last_labelled_token_must_end_the_answer(tmp_path: Path) -> None:
    rows = [[5, END]] * 9000 + [[5, END, 7], [END, 5], []]
    rule = contract_rule(prepared(tmp_path, rows), (END, 9))
    assert not rule.passed and rule.figure == 3.0
    assert contract_rule(prepared(tmp_path, [[5, END], [5, 9]]), (END, 9)).passed
