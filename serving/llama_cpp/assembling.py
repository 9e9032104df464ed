"""Puts the events of a streamed answer together into a plain one.

llama.cpp looks whether the client of a plain request is still there only after a second in which it had no result for
anybody (server-queue.cpp, `recv_with_timeout`), so beside other traffic a request whose client left runs to its end;
in a stream it looks at every token.
"""

from collections.abc import Sequence
from typing import Any

from serving.llama_cpp.errors import RequestRefused

Body = dict[str, Any]


def can_be_assembled(request: Body) -> bool:
    """Whether llama.cpp's stream has all that its plain answer has: not so for the calls of tools and for token ids."""
    return not request.get("tools") and not request.get("return_token_ids")


def assemble(events: Sequence[Body], chat: bool) -> Body:
    """The plain answer.

    Raises:
        RequestRefused: 500, llama.cpp broke off.
    """
    text: list[str] = []
    steps: list[Body] = []
    choice: Body = {"index": 0, "finish_reason": None}
    for event in events:
        if "error" in event:
            raise RequestRefused(str(event["error"].get("message", event["error"])), 500)
        for part in event["choices"]:
            text.append((part["delta"].get("content") if chat else part["text"]) or "")
            steps += (part.get("logprobs") or {}).get("content") or ()
            choice["finish_reason"] = part["finish_reason"] or choice["finish_reason"]
    if not events or choice["finish_reason"] is None:
        raise RequestRefused("llama.cpp's server broke off its answer", 500)
    said = "".join(text)
    choice |= {"message": {"role": "assistant", "content": said}} if chat else {"text": said}
    if steps or not chat:
        choice["logprobs"] = {"content": steps} if steps else None
    kind = "chat.completion" if chat else "text_completion"
    return {**events[-1], "object": kind, "choices": [choice]}
