"""The check of a whole source that runs before anything is started: seconds, no model library."""

from data.config import DataConfig
from data.conversation import Rows, conversation_sha256
from data.read import read_rows
from data.source import resolve
from turnout.errors import DataError


def check_source(config: DataConfig) -> Rows:
    """Read every row of the source and make sure that it can be split.

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
