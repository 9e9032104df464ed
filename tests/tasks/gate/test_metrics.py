from dataclasses import replace

import pytest
from pydantic import ValidationError

from tasks.answers_config import MetricsConfig
from tasks.gate.metrics import measure, metric_rules, words
from tests.tasks.measured import WELL


def test_words_are_found_in_any_script() -> None:
    assert words("The disk, full!") == ["the", "disk", "full"]
    assert words("원인: 디스크가 가득 찼습니다.") == ["원인", "디스크가", "가득", "찼습니다"]
    assert words("ディスク満杯 a1") == ["ディスク満杯"[i] for i in range(6)] + ["a1"]
    assert words("\u1112\u1161\u11ab") == ["한"]  # Hangul in parts, as some systems write it


def test_korean_answers_count() -> None:
    expected = "디스크가 가득 찼습니다 로그를 지우세요"
    found = measure([expected, "디스크가 가득 찼습니다"], [expected + ".", expected])
    assert found["exact_match"] == 0.5
    assert found["f1"] == pytest.approx((1 + 0.75) / 2, abs=1e-6)
    assert found["rouge_l"] == pytest.approx((1 + 0.75) / 2, abs=1e-6)


def test_order_counts_for_rouge_alone() -> None:
    found = measure(["b a d c"], ["a1 b"])
    assert found["exact_match"] == 0 and found["f1"] > 0
    swapped = measure(["x y"], ["y x"])
    assert swapped["f1"] == 1 and swapped["rouge_l"] == 0.5


def test_each_metric_that_is_wanted_is_a_rule() -> None:
    answers = [WELL[0], replace(WELL[0], text="no")]
    rules = metric_rules(MetricsConfig(exact_match=0.5, rouge_l=0.6), answers)
    assert [(rule.name, rule.passed, rule.figure) for rule in rules] == [
        ("exact_match", True, 0.5),
        ("rouge_l", False, 0.5),
    ]
    assert [rule.passed for rule in metric_rules(MetricsConfig(f1=0.1), [])] == [False]
    with pytest.raises(ValidationError, match="needs a least value"):
        MetricsConfig()
