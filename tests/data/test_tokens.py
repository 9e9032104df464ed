"""Tokens and loss masks, with the bundled base's real tokenizer and templates of other shapes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from data.conversation import Message, turns
from data.problems import RowProblem
from data.tokens import Encoded, encode, encode_all, load_tokenizer
from turnout.errors import BadInput
from turnout.references import Base

CHAT = (
    Message("system", "Be short."),
    Message("user", "Why exit code 137?"),
    Message("assistant", "원인: OOM."),
    Message("tool", "limit 64Mi"),
    Message("user", "And now?"),
    Message("assistant", "Fix: raise the limit."),
)
END = "<|im_end|>"

# Like reasoning models: an answer is written with its thoughts only while it is the last turn.
FORGETFUL = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and loop.last %}<think>\n</think>\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
OPENS_A_THOUGHT = FORGETFUL.replace("assistant\n{% endif %}", "assistant\n<think>\nHm{% endif %}")
NO_END = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
REFUSES_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system turn') }}{% endif %}" + FORGETFUL


def answer(encoded: Encoded, tokenizer: Any) -> str:
    return tokenizer.decode(
        [token for token, counts in zip(encoded.input_ids, encoded.loss_mask, strict=True) if counts]
    )


def prompt(encoded: Encoded) -> list[int]:
    return encoded.input_ids[: encoded.loss_mask.index(1)]


def test_every_answer_counts_up_to_its_end_token(tokenizer: Any) -> None:
    encoded = encode(CHAT, tokenizer)
    assert answer(encoded, tokenizer) == f"원인: OOM.{END}Fix: raise the limit.{END}"
    assert not encoded.last_only
    whole = tokenizer.apply_chat_template(turns(CHAT), tokenize=True, return_dict=False)
    assert whole[: len(encoded.input_ids)] == encoded.input_ids
    assert tokenizer.decode(whole[len(encoded.input_ids) :]) == "\n"


def test_the_prompt_is_what_an_engine_makes_of_it(tokenizer: Any) -> None:
    encoded = encode(CHAT[:3], tokenizer)
    asked = tokenizer.apply_chat_template(turns(CHAT[:2]), add_generation_prompt=True, tokenize=True, return_dict=False)
    assert prompt(encoded) == asked


@pytest.mark.parametrize("text", ["\n\nstarts with blank lines", "  indented", f"says {END} itself", "🚀", "a" * 3000])
def test_awkward_answers_keep_the_engines_prompt(text: str, tokenizer: Any) -> None:
    encoded = encode((Message("user", "q"), Message("assistant", text)), tokenizer)
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": "q"}], add_generation_prompt=True, tokenize=True, return_dict=False
    )
    assert prompt(encoded) == asked
    assert encoded.input_ids[-1] == tokenizer.eos_token_id and encoded.loss_mask[-1] == 1
    assert answer(encoded, tokenizer).strip().endswith(text.strip() + END)


def test_an_opening_by_the_assistant_answers_nothing(tokenizer: Any) -> None:
    encoded = encode((Message("assistant", "Hello!"), Message("user", "q"), Message("assistant", "a")), tokenizer)
    assert answer(encoded, tokenizer) == f"a{END}"


def test_where_the_template_rewrites_earlier_turns_the_last_answer_counts(tokenizer: Any) -> None:
    tokenizer.chat_template = FORGETFUL
    encoded = encode(CHAT, tokenizer)
    assert encoded.last_only
    assert answer(encoded, tokenizer) == f"<think>\n</think>\nFix: raise the limit.{END}"
    assert not encode(CHAT[:3], tokenizer).last_only  # a single answer loses nothing


def test_a_template_that_writes_into_the_answer_gets_the_bare_answer(tokenizer: Any) -> None:
    tokenizer.chat_template = OPENS_A_THOUGHT
    encoded = encode(CHAT[:3], tokenizer)
    assert tokenizer.decode(prompt(encoded)).endswith("assistant\n<think>\nHm")
    assert answer(encoded, tokenizer) == f"원인: OOM.{END}"


def test_a_template_without_an_end_token_gets_one(tokenizer: Any) -> None:
    tokenizer.chat_template = NO_END
    encoded = encode(CHAT, tokenizer)
    assert answer(encoded, tokenizer) == f"Fix: raise the limit.{END}"


def test_end_tokens_of_the_base_count_too(tokenizer: Any) -> None:
    tokenizer.chat_template = NO_END.replace("{{ m.content }}\n", "{{ m.content }}<|endoftext|>\n")
    other_end = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    encoded = encode(CHAT[:3], tokenizer, end_ids=(other_end,))
    assert answer(encoded, tokenizer) == "원인: OOM.<|endoftext|>"


def test_a_refusal_by_the_template_names_the_row(tokenizer: Any) -> None:
    tokenizer.chat_template = REFUSES_SYSTEM
    with pytest.raises(RowProblem, match="no system turn") as caught:
        list(encode_all([CHAT[1:3], CHAT], tokenizer))
    assert caught.value.args[1] == 1


@pytest.fixture
def folder(base: Base, tmp_path: Path) -> Path:
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(Path(base.path) / name, tmp_path)
    return tmp_path


def test_a_base_without_a_chat_template_is_refused(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(BadInput, match="has no chat template"):
        load_tokenizer(folder)


def test_a_base_without_a_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(BadInput, match="no tokenizer that can be loaded"):
        load_tokenizer(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("llama", "TokenizersBackend"),
        ("llama", "PreTrainedTokenizerFast"),
        ("qwen2", "Qwen2Tokenizer"),
        ("qwen2", "Qwen2TokenizerFast"),
        ("qwen3", "Qwen2Tokenizer"),
        ("qwen3", "Qwen2TokenizerFast"),
    ],
)
def test_the_direct_class_gives_what_auto_tokenizer_gives(model: str, name: str, folder: Path) -> None:
    from transformers import AutoTokenizer

    for file, key, value in (("config.json", "model_type", model), ("tokenizer_config.json", "tokenizer_class", name)):
        settings = json.loads((folder / file).read_text()) | {key: value}
        (folder / file).write_text(json.dumps(settings))
    direct, auto = load_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    assert type(direct) is type(auto)
    texts = [
        "  Analyse this: 137\n\n",
        "다음 에러 로그를 분석해주세요",
        "<|im_start|>user\nx<|im_end|>",
        "a1b22\t\t🚀 don't",
    ]
    assert direct(texts)["input_ids"] == auto(texts)["input_ids"]
    assert encode(CHAT, direct) == encode(CHAT, auto)


def test_an_earlier_answer_that_the_template_leaves_out_does_not_count(tokenizer: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "logs", "arguments": "{}"}}
    chat = (CHAT[1], Message("assistant", "", tool_calls=[call]), CHAT[3], CHAT[2])
    assert answer(encode(chat, tokenizer), tokenizer) == f"원인: OOM.{END}"
