"""What a real llama.cpp engine makes of conversations: the token ids that training used, or a refused proof."""

import subprocess
import sys
from pathlib import Path

import pytest

from data.probes import render_probes
from data.tokens import load_tokenizer
from serving.client import Continuation
from serving.llama_cpp.gguf import ensure_gguf
from serving.template import check_template
from tests.serving.llama_cpp.conftest import LlamaCpp, start
from turnout.errors import ProofFailed
from turnout.paths import cache
from turnout.references import Base

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

OTHER = """{% for message in messages %}{{ message.role }}: {{ message.content }}
{% endfor %}assistant:"""


def test_the_converted_file_feeds_the_model_what_training_did(engine: LlamaCpp) -> None:
    probes = render_probes(engine.base.path)
    assert probes
    engine.do(lambda client: check_template(client, engine.base.name, probes))


def test_another_template_in_the_file_is_refused(base: Base, tmp_path: Path) -> None:
    """As in files that others converted: the weights are right, and the model is fed something else."""
    file = tmp_path / "other.gguf"
    source = ensure_gguf(cache(), base, "f16")
    change = [sys.executable, "-m", "gguf.scripts.gguf_new_metadata", "--chat-template", OTHER, str(source), str(file)]
    subprocess.run(change, check=True, capture_output=True)
    with (
        start(base, tmp_path, "--gguf", str(file)) as other,
        pytest.raises(ProofFailed, match="they differ from position"),
    ):
        other.do(lambda client: check_template(client, base.name, render_probes(base.path)))


def test_a_continuation_shows_the_ids_of_prompt_and_answer(engine: LlamaCpp) -> None:
    tokenizer = load_tokenizer(engine.base.path)
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    told: Continuation = engine.do(lambda client: client.continue_chat(engine.base.name, messages, 32))
    rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
    assert list(told.prompt_ids) == list(rendered)
    whole = engine.do(
        lambda client: client.complete(engine.base.name, told.prompt_ids, max_tokens=32, return_token_ids=True)
    )
    assert "Paris" in whole.text and tokenizer.decode(told.token_ids, skip_special_tokens=True) == whole.text
    assert len(told.token_ids) == len(told.logprobs) == whole.tokens
    for token, logprob, top in zip(told.token_ids, told.logprobs, told.top, strict=True):
        assert len(top) == 5 and top[token] == max(top.values()) == logprob
