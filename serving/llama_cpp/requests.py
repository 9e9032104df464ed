"""Translates requests as vLLM takes them into llama.cpp's.

Fields fall into four groups: those that llama.cpp knows by the same name and meaning; those that are translated here;
those that say nothing to an engine, which are left out; and the rest, refused, so that none is ignored in silence.
"""

from typing import Any

from serving.llama_cpp.errors import RequestRefused
from serving.llama_cpp.grammars import to_grammar

Body = dict[str, Any]


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SAME = _names(
    """
    model stream stream_options max_tokens temperature top_p top_k min_p seed stop presence_penalty frequency_penalty
    logit_bias logprobs ignore_eos grammar
    """
)
_SAME_IN_CHATS = _names(
    """
    messages max_completion_tokens top_logprobs tools tool_choice parallel_tool_calls reasoning_effort
    chat_template_kwargs continue_final_message add_generation_prompt
    """
)
_TRANSLATED = _names(
    """
    repetition_penalty structured_outputs response_format min_tokens return_token_ids return_tokens_as_token_ids
    prompt_logprobs prompt_logprobs_positions
    """
)
_SAYS_NOTHING = _names("user safety_identifier store metadata service_tier prompt_cache_key request_id")
_ONLY_AS: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "use_beam_search": (False,),
    "stop_token_ids": ([],),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "include_stop_str_in_output": (False,),
    "add_special_tokens": (True, False),
}
"""Fields that may only have the value that changes nothing."""

_DEFAULTS = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
"""vLLM's. llama.cpp's own would cut off unlikely tokens."""
_COMPLETION_TOKENS = 16


def translate(request: Body, *, chat: bool, context: int, defaults: Body) -> Body:
    """llama.cpp's request for vLLM's; `defaults` are what the model's own generation config says.

    Raises:
        RequestRefused: 400, naming the field.
    """
    given = {field: value for field, value in request.items() if value is not None}
    body: Body = dict(_DEFAULTS | defaults)
    for field, value in given.items():
        if field in _SAME or (field in _SAME_IN_CHATS if chat else field == "prompt"):
            body[field] = value
        elif field in _ONLY_AS:
            if value not in _ONLY_AS[field]:
                raise RequestRefused(f"llama.cpp does not serve {field}={value!r:.100}")
        elif field not in _TRANSLATED and field not in _SAYS_NOTHING:
            raise RequestRefused(f"llama.cpp does not know the field {field!r:.100}")
    if body["top_k"] == -1:
        body["top_k"] = 0
    _translate_penalty(given, body, context)
    _translate_lengths(given, body, chat)
    _translate_ids(given, body)
    if not chat:
        _check_prompt(body)
    if grammar := to_grammar(given):
        body["grammar"] = grammar
    return body


def wants_token_ids(request: Body) -> bool:
    return bool(request.get("return_token_ids"))


def _translate_penalty(given: Body, body: Body, context: int) -> None:
    penalty = given.get("repetition_penalty", body.pop("repetition_penalty", 1.0))
    if penalty != 1.0:
        body["repeat_penalty"] = penalty
    # llama.cpp looks at the last 64 tokens only, where nothing else is said.
    if penalty != 1.0 or body.get("presence_penalty") or body.get("frequency_penalty"):
        body["repeat_last_n"] = context


def _translate_lengths(given: Body, body: Body, chat: bool) -> None:
    if not chat:
        body.setdefault("max_tokens", _COMPLETION_TOKENS)
    most = body.get("max_completion_tokens", body.get("max_tokens"))
    if least := given.get("min_tokens", 0):
        if most is None or least < most:
            raise RequestRefused(f"llama.cpp serves min_tokens={least!r:.20} only where it equals max_tokens")
        body["ignore_eos"] = True
    if most is not None and (type(most) is not int or most < 1):
        raise RequestRefused(f"max_tokens={most!r:.20} is not a number of tokens")


def _translate_ids(given: Body, body: Body) -> None:
    if not wants_token_ids(given):
        return
    if given.get("stream"):
        raise RequestRefused("llama.cpp does not serve return_token_ids in streams")
    # Log-probabilities come with ids too, but not those of tokens that end within a character.
    body |= {"return_tokens": True, "verbose": True}


def _check_prompt(body: Body) -> None:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        body["prompt"] = prompt = prompt[0]
    words = isinstance(prompt, str) and prompt
    ids = isinstance(prompt, list) and prompt and all(type(each) is int and each >= 0 for each in prompt)
    if not words and not ids:
        raise RequestRefused("'prompt' must be one text or one list of token ids, and not empty")
