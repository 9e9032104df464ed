"""The validation prompts that the engine is to answer, as a person reads them and as the engine gets them."""

from collections.abc import Sequence

from data.rows import ScoredRow
from serving.answers import Question
from tasks.config import ScoreConfig


def questions(rows: Sequence[ScoredRow], config: ScoreConfig) -> tuple[Question, ...]:
    """Up to `config.answers` prompts of `rows`, in their order.

    Rows whose own answer is longer than `config.answer_tokens` are left out: cut off there, an answer would say nothing
    about whether it ends. Where all are, they get the room that their own answers take, and a quarter more.
    """
    fitting = [row for row in rows if _own_tokens(row) <= config.answer_tokens]
    return tuple(_question(row, config.answer_tokens) for row in (fitting or list(rows))[: config.answers])


def _question(row: ScoredRow, answer_tokens: int) -> Question:
    own = _own_tokens(row)
    limit = answer_tokens if own <= answer_tokens else own + own // 4
    return Question(row.row_sha256, _said(row, "user"), _said(row, "assistant"), tuple(row.prompt_ids), limit)


def _own_tokens(row: ScoredRow) -> int:
    return len(row.input_ids) - len(row.prompt_ids)


def _said(row: ScoredRow, role: str) -> str:
    return next((str(entry["content"]) for entry in reversed(row.messages) if entry["role"] == role), "")
