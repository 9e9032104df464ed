"""Whether answers have the form that a preset asks for: a process of its own, because some patterns never end.

A regular expression with nested repeats can try for years on a text of forty characters, and nothing within the
process can stop it.
"""

import re
from typing import Any

from tasks.answers_config import FormatConfig
from tasks.children import main
from tasks.json_schema import schema_check


def run(job: dict[str, Any]) -> list[bool]:
    """Whether each of the `answers` has the `format`."""
    config = FormatConfig.model_validate(job["format"])
    if config.json_schema is not None:
        fits = schema_check(config.json_schema)
        return [fits(text) for text in job["answers"]]
    pattern = re.compile(config.regex or "")
    return [pattern.search(text) is not None for text in job["answers"]]


if __name__ == "__main__":
    main(run)
