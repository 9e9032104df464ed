"""Tokenises a sample of a source's rows, without splitting or keeping them: enough to compare them with others."""

from data.config import DataConfig
from data.conversation import conversation_sha256
from data.problems import RowProblem
from data.read import read_rows
from data.rows import ScoredRow, pick
from data.source import resolve
from data.tokens import encode_all, load_tokenizer
from turnout.errors import DataError
from turnout.references import Base


def fresh_rows(config: DataConfig, base: Base, max_rows: int) -> list[ScoredRow]:
    """At most `max_rows` rows of `config.path`, picked by content hash; those over `max_length` are among them.

    Raises:
        DataError: the source cannot be used.
        BadInput: the base's tokenizer cannot be loaded or has no chat template.
    """
    rows = read_rows(resolve(config))
    digests = [conversation_sha256(row.messages) for row in rows.rows]
    picked = pick(digests, max_rows)
    try:
        conversations = [rows.rows[index].messages for index in picked]
        encoded = list(encode_all(conversations, load_tokenizer(base.path), base.eos_ids))
    except RowProblem as problem:
        text, index = problem.args
        raise DataError(
            f"{rows.file}, {rows.where(rows.rows[picked[index]])}: {text}", "Change or remove the row."
        ) from problem
    return [
        ScoredRow(digests[index], item.input_ids, item.loss_mask, [])
        for index, item in zip(picked, encoded, strict=True)
    ]
