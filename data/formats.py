"""Tells the dataset formats apart and brings a record of any of them to one shape."""

import json
from collections.abc import Callable
from typing import Any

from data.conversation import Message
from data.problems import RowProblem, describe

FORMATS = (
    "instruction/(input)/output, prompt/completion, messages (role/content), conversations (from/value or role/content)"
)
"""The known formats, for error messages."""

PREFERENCE = "preference"

USED_COLUMNS = frozenset(
    ("instruction", "input", "output", "system", "prompt", "completion", "messages", "conversations", "conversation")
)
"""Columns that some format reads; a report names the others, so that nobody thinks they were trained on."""

_ROLES = {
    "system": "system", "developer": "system",
    "user": "user", "human": "user",
    "assistant": "assistant", "gpt": "assistant", "chatgpt": "assistant", "model": "assistant",
    "bing": "assistant", "bard": "assistant", "function_call": "assistant",
    "tool": "tool", "function": "tool", "observation": "tool", "function_response": "tool", "tool_response": "tool",
}  # fmt: skip


def detect(record: dict[str, Any]) -> str | None:
    """The format that the keys of `record` show, `PREFERENCE`, or None. Columns that hold null do not count."""
    return _format_of({key for key, value in record.items() if value is not None}) or _format_of(set(record))


def _format_of(keys: set[str]) -> str | None:
    if keys & {"chosen", "rejected"}:
        return PREFERENCE
    if "messages" in keys:
        return "messages"
    if keys & {"conversations", "conversation"}:
        return "conversations"
    if keys & {"instruction", "output"}:
        return "instruction"
    if keys & {"prompt", "completion"}:
        return "prompt_completion"
    return None


def convert(record: dict[str, Any], kind: str) -> tuple[Message, ...]:
    """The conversation of a record of format `kind`.

    Raises:
        RowProblem: a value is missing, blank, not text, or in a role that is not known; or the last turn is
            not the assistant's.
    """
    messages = tuple(_CONVERTERS[kind](record))
    _check(messages)
    return messages


def _instruction(record: dict[str, Any]) -> list[Message]:
    prompt = _text(record.get("instruction"), "the prompt ('instruction')")
    answer = _text(record.get("output"), "the answer ('output')")
    more = record.get("input")
    if more is not None and _text(more, "'input'", blank=True).strip():
        prompt = f"{prompt}\n\n{more}"
    system = record.get("system")
    opening = [Message("system", _text(system, "'system'"))] if system else []
    return [*opening, Message("user", prompt), Message("assistant", answer)]


def _prompt_completion(record: dict[str, Any]) -> list[Message]:
    before = _side(record.get("prompt"), "user", "the prompt ('prompt')")
    return before + _side(record.get("completion"), "assistant", "the answer ('completion')")


def _side(value: Any, role: str, where: str) -> list[Message]:
    """A text by `role`, or a list of turns."""
    if not isinstance(value, list):
        return [Message(role, _text(value, where))]
    if not value:
        raise RowProblem(f"{where} is an empty list")
    return [_message(turn, number) for number, turn in enumerate(value, 1)]


def _messages(record: dict[str, Any]) -> list[Message]:
    return _turns(record.get("messages"), "messages")


def _conversations(record: dict[str, Any]) -> list[Message]:
    name = "conversations" if "conversations" in record else "conversation"
    opening = [Message("system", _text(record["system"], "'system'"))] if record.get("system") else []
    return opening + _turns(record.get(name), name)


_CONVERTERS: dict[str, Callable[[dict[str, Any]], list[Message]]] = {
    "instruction": _instruction,
    "prompt_completion": _prompt_completion,
    "messages": _messages,
    "conversations": _conversations,
}


def _turns(value: Any, name: str) -> list[Message]:
    if not isinstance(value, list):
        raise RowProblem(f"'{name}' is {describe(value)}, not a list of turns")
    if not value:
        raise RowProblem(f"'{name}' is an empty list")
    return [_message(turn, number) for number, turn in enumerate(value, 1)]


def _message(turn: Any, number: int) -> Message:
    if not isinstance(turn, dict):
        raise RowProblem(f"turn {number} is {describe(turn)}, not an object with a role and a content")
    raw_role = turn.get("role", turn.get("from"))
    role = _ROLES.get(raw_role.strip().lower()) if isinstance(raw_role, str) else None
    if role is None:
        raise RowProblem(f"turn {number} has the role {describe(raw_role)}; known: {', '.join(sorted(_ROLES))}")
    if turn.get("weight") == 0:
        raise RowProblem(f"turn {number} has weight 0, and every assistant turn is trained on")
    calls = _without_nulls(turn.get("tool_calls")) or None
    if calls is not None:
        _check_json(calls, f"turn {number}'s tool_calls")
    content = turn.get("content", turn.get("value"))
    text = (
        ""
        if content is None and calls
        else _text(_joined(content), f"turn {number} ({role})", role != "assistant" or calls)
    )
    name, call_id = (turn.get(key) for key in ("name", "tool_call_id"))
    return Message(
        role,
        text,
        name=None if name is None else _text(name, f"turn {number}'s name"),
        tool_calls=calls,
        tool_call_id=None if call_id is None else _text(call_id, f"turn {number}'s tool_call_id"),
    )


def _joined(content: Any) -> Any:
    """OpenAI's list of text parts as one text; any other value as it is."""
    if not isinstance(content, list):
        return content
    for part in content:
        if not (isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)):
            raise RowProblem(f"a content part is {describe(part)}; only parts of type text can be trained on")
    return "".join(part["text"] for part in content)


def _text(value: Any, where: str, blank: Any = False) -> str:
    if value is None:
        raise RowProblem(f"{where} is missing")
    if not isinstance(value, str):
        raise RowProblem(f"{where} is {describe(value)}, not text")
    if not blank and not value.strip():
        raise RowProblem(f"{where} is blank")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise RowProblem(
                f"{where} holds a lone surrogate ({value[error.start]!r}), which is not a character"
            ) from None
    return value


def _without_nulls(value: Any) -> Any:
    # A table gives every struct all fields of its column, so absent ones come back as nulls.
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _check_json(value: Any, where: str) -> None:
    if not isinstance(value, list):
        raise RowProblem(f"{where} is {describe(value)}, not a list")
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError) as error:
        raise RowProblem(f"{where} cannot be written as JSON: {error}") from None


def _check(messages: tuple[Message, ...]) -> None:
    if messages[-1].role != "assistant":
        raise RowProblem(f"the conversation ends with a {messages[-1].role} turn, not with the assistant's answer")
    if not any(message.role == "user" and message.content.strip() for message in messages[:-1]):
        raise RowProblem("there is no prompt: no user turn with text before the answer")
