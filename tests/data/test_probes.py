"""The probe conversations, which show whether an engine renders the chat template as training did."""

from typing import Any

from data.conversation import Message
from data.probes import CONVERSATIONS, render_probes
from data.tokens import encode
from turnout.references import Base


def test_the_conversations_cover_what_templates_get_wrong() -> None:
    turns = [turn for conversation in CONVERSATIONS for turn in conversation]
    contents = [str(turn["content"]) for turn in turns]
    assert {"system", "user", "assistant"} == {turn["role"] for turn in turns}
    assert any(turn["role"] == "system" and not turn["content"] for turn in turns)
    assert any(turn["role"] == "system" and turn["content"] for turn in turns)
    assert any(len(conversation) > 2 for conversation in CONVERSATIONS)
    assert any("가" <= letter <= "힣" for text in contents for letter in text)
    assert any(ord(letter) > 0x1F000 for text in contents for letter in text)
    assert any(text != text.strip(" ") for text in contents) and any(text.endswith("\n") for text in contents)


def test_the_ids_are_those_that_training_puts_before_an_answer(base: Base, loaded_tokenizer: Any) -> None:
    probes = render_probes(base.path)
    assert len(probes) == len(CONVERSATIONS)
    for conversation, ids in probes:
        turns = [*(Message(**turn) for turn in conversation), Message("assistant", "An answer.")]
        encoded = encode(turns, loaded_tokenizer, base.eos_ids)
        assert encoded.input_ids[: len(ids)] == ids and encoded.loss_mask[len(ids)] == 1
        assert encoded.input_ids[-1] in base.eos_ids and encoded.loss_mask[-1] == 1
