"""Makes llama.cpp's answers look like vLLM's where a client asked for token ids or log-probabilities."""

import json
from typing import Any

Body = dict[str, Any]


def rewrites(request: Body, chat: bool) -> bool:
    """Whether answers to `request` differ from llama.cpp's own."""
    told = request.get("logprobs") is not None and request.get("logprobs") is not False
    return bool(request.get("return_token_ids") or (told and (not chat or request.get("return_tokens_as_token_ids"))))


def rewrite(answer: Body, request: Body, *, chat: bool, prompt_ids: list[int] | None) -> Body:
    """`answer`, or one event of a stream, as vLLM would give it."""
    as_ids = bool(request.get("return_tokens_as_token_ids"))
    token_ids = answer.pop("__verbose", {}).get("tokens", [])
    for choice in answer.get("choices", ()):
        steps = (choice.get("logprobs") or {}).get("content") or []
        if request.get("return_token_ids"):
            choice["token_ids"] = token_ids
        if as_ids:
            _name_by_ids(steps)
        if not chat:
            choice["logprobs"] = None if request.get("logprobs") is None else _legacy(steps, request["logprobs"])
            if prompt_ids is not None:
                choice["prompt_token_ids"] = prompt_ids
    if chat and prompt_ids is not None:
        answer["prompt_token_ids"] = prompt_ids
    return answer


def rewrite_event(line: bytes, request: Body, chat: bool) -> bytes:
    """One line of a stream of events."""
    if not line.startswith(b"data: {"):
        return line
    event = rewrite(json.loads(line[6:]), request, chat=chat, prompt_ids=None)
    return b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n"


def _name_by_ids(steps: list[Body]) -> None:
    for step in steps:
        for each in (step, *step.get("top_logprobs", ())):
            each["token"] = f"token_id:{each['id']}"


def _legacy(steps: list[Body], most: int) -> Body:
    """The shape of OpenAI's older completions."""
    offsets, at = [], 0
    for step in steps:
        offsets.append(at)
        at += len(bytes(step.get("bytes") or ()).decode("utf-8", "replace"))
    return {
        "tokens": [step["token"] for step in steps],
        "token_logprobs": [step["logprob"] for step in steps],
        "top_logprobs": [
            {step["token"]: step["logprob"]} | {each["token"]: each["logprob"] for each in step["top_logprobs"][:most]}
            for step in steps
        ],
        "text_offset": offsets,
    }
