"""Log-probabilities of prompts on a real llama.cpp engine, against Transformers."""

from pathlib import Path

import httpx
import pytest

from data.conversation import Message
from data.rows import ScoredRow
from data.tokens import encode, load_tokenizer
from serving.client import POSITIONS
from serving.measure import mean_distance, mean_loss, score_rows
from tests.serving.llama_cpp.conftest import LlamaCpp

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ANSWERS = {"The disk is full.": "Cause: old logs. Fix: rotate them.", "포트 5432": "연결이 거부되었습니다 🚂"}
"""The second has tokens that end within a character, of which llama.cpp's server reports nothing by itself."""
_TOKEN_NATS = 0.05
_MEAN_NATS = 0.01
"""llama.cpp rounds weights and activations to 16 bits where the reference computes in float32: 0.003 nats a token were
measured in the mean."""


@pytest.fixture(scope="module")
def rows(engine: LlamaCpp) -> list[ScoredRow]:
    tokenizer = load_tokenizer(engine.base.path)
    every = []
    for question, answer in ANSWERS.items():
        turns = [Message("user", question), Message("assistant", answer)]
        encoded = encode(turns, tokenizer)
        every.append(ScoredRow("", encoded.input_ids, encoded.loss_mask, [turn.as_dict() for turn in turns]))
    return every


def reference(base: Path, rows: list[ScoredRow]) -> list[list[float]]:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
    told = []
    with torch.no_grad():
        for row in rows:
            ids = torch.tensor([row.input_ids])
            logprobs = torch.log_softmax(model(ids).logits[0, :-1], -1).gather(1, ids[0, 1:, None])[:, 0].tolist()
            told.append([value for value, counts in zip(logprobs, row.loss_mask[1:], strict=True) if counts])
    return told


def test_tokens_are_as_likely_as_transformers_finds_them(engine: LlamaCpp, rows: list[ScoredRow]) -> None:
    expected = reference(Path(engine.base.path), rows)
    served = engine.do(lambda client: score_rows(client, engine.base.name, rows))
    assert [len(row) for row in served] == [sum(row.loss_mask) for row in rows]
    for told, known in zip(served, expected, strict=True):
        assert told == pytest.approx(known, abs=_TOKEN_NATS)
    assert mean_distance(served, expected) < _MEAN_NATS
    assert mean_loss(served).nats == pytest.approx(mean_loss(expected).nats, abs=_MEAN_NATS)


def test_positions_are_those_of_the_whole(engine: LlamaCpp, rows: list[ScoredRow]) -> None:
    ids = list(rows[0].input_ids)[-8:]
    whole = engine.do(lambda client: client.prompt_logprobs(engine.base.name, ids))
    some = engine.do(lambda client: client.prompt_logprobs(engine.base.name, ids, [5, 2]))
    assert len(whole) == len(ids) - 1
    # How many tokens are computed together moves the last digits.
    assert some == pytest.approx([whole[4], whole[1]], abs=_TOKEN_NATS)
    assert engine.do(lambda client: client.prompt_logprobs(engine.base.name, ids, [])) == []


@pytest.mark.parametrize("positions", [[0], [3], [-1], "1", [True]])
def test_what_is_no_position_is_refused(engine: LlamaCpp, positions: object) -> None:
    body = {"model": engine.base.name, "prompt": [1, 2, 3], "max_tokens": 1, "prompt_logprobs": 0, POSITIONS: positions}
    answer = httpx.post(f"{engine.url}/v1/completions", json=body, timeout=60)
    assert answer.status_code == 400 and POSITIONS in answer.json()["error"]["message"]
