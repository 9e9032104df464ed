"""Which validation prompts an engine is to answer, and in how many tokens."""

from data.rows import ScoredRow
from tasks.config import ScoreConfig
from tasks.deploying import Served
from tasks.questions import questions
from tests.registry.material import BASE
from turnout.references import Answer


def row(number: int, answer_tokens: int) -> ScoredRow:
    turns = [{"role": "user", "content": f"prompt {number}"}, {"role": "assistant", "content": f"answer {number}"}]
    ids = [1, 2, *range(3, 3 + answer_tokens)]
    return ScoredRow(f"row{number}", ids, [0, 0] + [1] * answer_tokens, turns)


def test_prompts_are_asked_in_words_and_tokens() -> None:
    (asked,) = questions([row(0, 4)], ScoreConfig(answers=3, answer_tokens=20))
    assert (asked.row_sha256, asked.prompt, asked.expected) == ("row0", "prompt 0", "answer 0")
    assert asked.prompt_ids == (1, 2) and asked.max_tokens == 20


def test_answers_that_would_be_cut_off_are_not_asked_for() -> None:
    rows = [row(0, 40), row(1, 20), row(2, 21), row(3, 5), row(4, 6)]
    asked = questions(rows, ScoreConfig(answers=2, answer_tokens=20))
    assert [each.row_sha256 for each in asked] == ["row1", "row3"]


def test_where_all_are_long_they_get_the_room_they_need() -> None:
    asked = questions([row(0, 40), row(1, 80)], ScoreConfig(answer_tokens=20))
    assert [each.max_tokens for each in asked] == [50, 100]


def test_none_may_be_wanted() -> None:
    assert questions([row(0, 4)], ScoreConfig(answers=0)) == ()


def test_the_stop_rate_is_the_share_that_ended_by_itself() -> None:
    def served(*reasons: str) -> Served:
        answers = tuple(Answer("row", "prompt", "expected", "text", reason, 3) for reason in reasons)
        return Served("vllm-1", "http://127.0.0.1:1", 0.0, BASE, "folder", 0.02, answers=answers)

    assert served("stop", "length", "stop", "stop").stop_rate == 0.75 and served().stop_rate is None
