"""The checks of a whole source: what the preflight looks at in seconds, and every check for `turnout data check`."""

from data.checks.report import Report
from data.checks.stream import Progress, check_stream
from data.config import DataConfig
from data.conversation import Rows, conversation_sha256
from data.read import read_rows
from data.source import resolve, source_name
from turnout.errors import DataError
from turnout.references import Base


def check_source(config: DataConfig) -> Rows:
    """Read every row of the source and make sure that it can be split; no model library is needed.

    Raises:
        DataError: the source is not there or broken, or holds fewer than two distinct prompts.
    """
    rows = read_rows(resolve(config))
    first = conversation_sha256(rows.rows[0].prompt)
    if all(conversation_sha256(row.prompt) == first for row in rows.rows[1:]):
        count = len(rows.rows)
        raise DataError(
            f"{rows.file} holds {count} row{'s' if count > 1 else ''} with one distinct prompt; at least 2 are needed, "
            "one to train and one to validate on",
            "Add rows with other prompts.",
        )
    return rows


def check_file(config: DataConfig, base: Base, progress: Progress | None = None) -> Report:
    """Every check of the source that `config` names, in the tokens of `base`; rows that are broken are counted.

    Raises:
        DataError: the source is not there, or as a whole cannot be read.
        BadInput: the base's tokenizer cannot be loaded.
    """
    return check_stream(resolve(config), source_name(config), config, base, progress)
