"""The one shape that every dataset format is brought to: conversations that end with the assistant's answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from turnout.digests import json_sha256


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `role` is system, user, assistant or tool; the tool fields are OpenAI's."""

    role: str
    content: str
    name: str | None = None
    tool_calls: list[Any] | None = None
    tool_call_id: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The turn as chat templates and OpenAI's API take it; fields that are not set are left out."""
        turn: dict[str, Any] = {"role": self.role, "content": self.content}
        for name in ("name", "tool_calls", "tool_call_id"):
            if (value := getattr(self, name)) is not None:
                turn[name] = value
        return turn


@dataclass(frozen=True, slots=True)
class Row:
    """A conversation and where it stands: `line` counts from 1, and is the row's number in a Parquet file.

    `file` is the number of its file in the source's files.
    """

    messages: tuple[Message, ...]
    line: int
    file: int = 0

    @property
    def prompt(self) -> tuple[Message, ...]:
        """Every turn before the last answer."""
        return self.messages[:-1]


@dataclass(frozen=True)
class Rows:
    """The rows of one file or folder, named by `file`; `places` name its files, and `notes` are for the report."""

    format: str
    rows: list[Row]
    file: str
    places: tuple[str, ...] = ("line",)
    notes: tuple[str, ...] = field(default=())

    def where(self, row: Row) -> str:
        """Where `row` stands in the source: "line 3", "row 3" of a table, or "b.jsonl, line 3" of a folder."""
        return f"{self.places[row.file]} {row.line}"


def turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [message.as_dict() for message in messages]


def conversation_sha256(messages: Sequence[Message]) -> str:
    """Digest of the turns alone, so the file's format and the order of its keys do not matter."""
    return json_sha256(turns(messages))
