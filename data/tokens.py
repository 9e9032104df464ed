"""Turns conversations into token ids, and marks the tokens that an answer is made of."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from data.conversation import Message, turns
from data.problems import RowProblem
from turnout.errors import BadInput

# Model type and tokenizer class for which AutoTokenizer is known to end at the class named here. Importing that class
# alone takes a quarter of AutoTokenizer's time, which loads every model's configuration.
_DIRECT: dict[tuple[Any, Any], str] = {
    ("llama", "TokenizersBackend"): "PreTrainedTokenizerFast",
    ("llama", "PreTrainedTokenizerFast"): "PreTrainedTokenizerFast",
    ("qwen2", "Qwen2Tokenizer"): "Qwen2Tokenizer",
    ("qwen2", "Qwen2TokenizerFast"): "Qwen2Tokenizer",
    ("qwen3", "Qwen2Tokenizer"): "Qwen2Tokenizer",
    ("qwen3", "Qwen2TokenizerFast"): "Qwen2Tokenizer",
}


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids of a conversation, which end with the last answer's end token.

    `loss_mask` is 1 on every answer's tokens, its end token included; an earlier answer that the chat template
    writes nothing of (its tool calls, say) does not count. `last_only` says that earlier answers
    do not count, because the chat template renders them differently once the conversation goes on.
    """

    input_ids: list[int]
    loss_mask: list[int]
    last_only: bool = False


def load_tokenizer(base_path: Path | str) -> Any:
    """The tokenizer of a base model's folder, the same that transformers' AutoTokenizer gives.

    Raises:
        BadInput: the folder holds no tokenizer, or one without a chat template.
    """
    import transformers

    folder = Path(base_path)
    name = _DIRECT.get((_setting(folder, "config.json", "model_type"), _class(folder)), "AutoTokenizer")
    try:
        tokenizer = getattr(transformers, name).from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise BadInput(
            f"{folder} holds no tokenizer that can be loaded: {reason}", "Check the base model's folder."
        ) from error
    if not tokenizer.chat_template:
        raise BadInput(
            f"the tokenizer in {folder} has no chat template, so conversations cannot be written for it",
            "Use the instruct or chat variant of the base, or put a chat_template.jinja into its folder.",
        )
    return tokenizer


def encode(messages: Sequence[Message], tokenizer: Any, end_ids: Iterable[int] = ()) -> Encoded:
    """One conversation; see `encode_all`."""
    return next(encode_all([messages], tokenizer, end_ids))


def encode_all(
    conversations: Sequence[Sequence[Message]], tokenizer: Any, end_ids: Iterable[int] = ()
) -> Iterator[Encoded]:
    """Encode conversations that end with an answer; `end_ids` are end tokens besides the tokenizer's own.

    Raises:
        RowProblem: the chat template refuses a conversation, or writes nothing of its last answer; `args[1]` is
            its index.
    """
    ends = frozenset(end_ids) | ({tokenizer.eos_token_id} if tokenizer.eos_token_id is not None else set())
    rendered = _render_all(conversations, tokenizer)
    texts = list({text: None for answers in rendered for answer in answers for text in answer})
    ids = dict(zip(texts, _ids(texts, tokenizer), strict=True))
    for index, (messages, answers) in enumerate(zip(conversations, rendered, strict=True)):
        encoded = _every_answer(answers, ids, ends) or _last_answer(messages[-1].content, answers, tokenizer, ends)
        if not _teaches(encoded, ends):
            cause = ", which leaves out tool calls" if messages[-1].tool_calls else ""
            raise RowProblem(f"the last answer is empty as the base's chat template writes it{cause}", index)
        yield encoded


def _setting(folder: Path, file: str, key: str) -> Any:
    try:
        return json.loads((folder / file).read_text(encoding="utf-8")).get(key)
    except (OSError, ValueError, AttributeError):
        return None


def _class(folder: Path) -> str | None:
    special = _setting(folder, "tokenizer_config.json", "auto_map") or not (folder / "tokenizer.json").is_file()
    return None if special else _setting(folder, "tokenizer_config.json", "tokenizer_class")


def _ids(texts: list[str], tokenizer: Any) -> list[list[int]]:
    # The template has written the special tokens already.
    return tokenizer(texts, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"]


def _render_all(conversations: Sequence[Sequence[Message]], tokenizer: Any) -> list[list[tuple[str, str]]]:
    """`_render` of each, in two calls for all of them: a call costs more than what the template does."""
    chats = [turns(messages) for messages in conversations]
    ends = [
        (index, end)
        for index, chat in enumerate(chats)
        for end in range(1, len(chat))  # an opening by the assistant answers nothing
        if chat[end]["role"] == "assistant"
    ]
    try:
        asking = _written([chats[index][:end] for index, end in ends], tokenizer, ask=True)
        answered = _written([chats[index][: end + 1] for index, end in ends], tokenizer, ask=False)
    except Exception:  # one by one, to name the row
        return [_render(messages, index, tokenizer) for index, messages in enumerate(conversations)]
    rendered: list[list[tuple[str, str]]] = [[] for _ in chats]
    for (index, _), ask, answer in zip(ends, asking, answered, strict=True):
        rendered[index].append((ask, answer))
    return rendered


def _written(chats: list[list[dict[str, Any]]], tokenizer: Any, *, ask: bool) -> list[str]:
    return tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=ask)


def _render(messages: Sequence[Message], index: int, tokenizer: Any) -> list[tuple[str, str]]:
    """For each answer, the text that asks for it and the text up to and including it."""
    from jinja2 import TemplateError

    chat = turns(messages)
    try:
        return [
            (_written([chat[:end]], tokenizer, ask=True)[0], _written([chat[: end + 1]], tokenizer, ask=False)[0])
            for end in range(1, len(chat))
            if chat[end]["role"] == "assistant"
        ]
    except (TemplateError, TypeError, ValueError, KeyError) as error:
        raise RowProblem(f"the base's chat template refuses the conversation: {error}", index) from error


def _every_answer(answers: list[tuple[str, str]], ids: dict[str, list[int]], ends: frozenset[int]) -> Encoded | None:
    """All answers marked; None where what is before an answer is not the start of what comes after it."""
    whole = ids[answers[-1][1]]
    mask = [0] * len(whole)
    end = 0
    for asking, answered in answers:
        prompt, through = ids[asking], ids[answered]
        end = _end_of_answer(through, len(prompt), ends)
        if not end or whole[: len(prompt)] != prompt or whole[:end] != through[:end]:
            return None
        if not ends.issuperset(through[len(prompt) : end]):  # nothing but an end token would teach to say nothing
            mask[len(prompt) : end] = [1] * (end - len(prompt))
    return Encoded(whole[:end], mask[:end])


def _last_answer(content: str, answers: list[tuple[str, str]], tokenizer: Any, ends: frozenset[int]) -> Encoded:
    """The prompt as the engine will see it, then the last answer, in tokens of its own."""
    asking, answered = answers[-1]
    tail = answered[len(asking) :] if answered.startswith(asking) else content
    prompt, answer = _ids([asking, tail], tokenizer)
    if end := _end_of_answer(answer, 0, ends):
        answer = answer[:end]
    elif tokenizer.eos_token_id is None:
        raise BadInput("the base's tokenizer has no end token, so no answer could ever end", "Use another base.")
    else:
        answer = [*_ids([content], tokenizer)[0], tokenizer.eos_token_id]
    return Encoded(prompt + answer, [0] * len(prompt) + [1] * len(answer), last_only=len(answers) > 1)


def _teaches(encoded: Encoded, ends: frozenset[int]) -> bool:
    """Whether the last answer is marked, and is more than end tokens."""
    marked = zip(reversed(encoded.input_ids), reversed(encoded.loss_mask), strict=True)
    return any(token not in ends for token, _ in takewhile(lambda pair: pair[1], marked))


def _end_of_answer(ids: list[int], start: int, ends: frozenset[int]) -> int:
    """The position after the last end token at or after `start`, or 0."""
    return next((position + 1 for position in range(len(ids) - 1, start - 1, -1) if ids[position] in ends), 0)
