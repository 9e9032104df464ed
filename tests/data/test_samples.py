"""What ships in data/samples: enough rows, short, of many kinds, and no prompt twice."""

import re

from data.check import check_source
from data.config import DataConfig
from data.conversation import conversation_sha256
from data.source import samples
from data.tokens import encode_all, load_tokenizer
from turnout.references import Base

KOREAN = re.compile("[가-힣]")


def test_the_samples_are_listed() -> None:
    assert samples() == ["incidents", "incidents-six"]


def test_incidents_has_enough_rows_in_two_languages_and_the_asked_shape() -> None:
    rows = check_source(DataConfig(path="sample:incidents")).rows
    assert len(rows) >= 160
    assert len({conversation_sha256(row.prompt) for row in rows}) == len(rows)
    assert len({row.messages[-1].content for row in rows}) >= 2 * 12  # of 12 kinds of fault, in two languages
    korean = [row for row in rows if KOREAN.search(row.messages[0].content)]
    assert 0.15 < len(korean) / len(rows) < 0.3
    for row in rows:
        question, answer = (message.content for message in row.messages)
        shape = (
            r"에러 로그 분석: .+\n원인: .+ 해결: .+\."
            if row in korean
            else r"Analyse this error log: .+\nCause: .+\. Fix: .+\."
        )
        assert re.fullmatch(shape, f"{question}\n{answer}"), question


def test_incidents_are_short_enough_to_train_on_two_cores(base: Base) -> None:
    rows = check_source(DataConfig(path="sample:incidents"))
    tokenizer = load_tokenizer(base.path)
    lengths = [len(item.input_ids) for item in encode_all([row.messages for row in rows.rows], tokenizer)]
    assert max(lengths) <= 120
    assert sum(lengths) < 15_000


def test_the_six_rows_are_korean_like_the_articles() -> None:
    rows = check_source(DataConfig(path="sample:incidents-six")).rows
    assert len(rows) == 6
    for row in rows:
        assert row.messages[0].content.startswith("다음 에러 로그를 분석해주세요: ")
        assert re.fullmatch(r"원인: .+ 해결: .+\.", row.messages[1].content)
