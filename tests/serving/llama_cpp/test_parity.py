"""The same base and adapter on a real vLLM and a real llama.cpp engine."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from data.config import DataConfig
from data.prepare import prepare
from data.rows import ScoredRow, validation_sample
from serving.client import EngineClient
from serving.measure import Logprobs, mean_loss, score_rows
from tests.serving.conftest import Workshop
from tests.serving.llama_cpp.conftest import LlamaCpp
from turnout.references import Base

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

_NATS = 0.02
_ANSWER_TOKENS = 48


@pytest.fixture(scope="module")
def rows(base: Base, tmp_path_factory: pytest.TempPathFactory) -> list[ScoredRow]:
    config = DataConfig(path="sample:incidents", max_length=256)
    return validation_sample(prepare(config, base, tmp_path_factory.mktemp("rows") / "data"), 256)


async def measure(client: EngineClient, name: str, rows: Sequence[ScoredRow]) -> tuple[Logprobs, list[str]]:
    """How likely the rows' answers are, and what is answered to their prompts."""
    scored = await score_rows(client, name, rows)
    asked = (client.complete(name, row.prompt_ids, max_tokens=_ANSWER_TOKENS) for row in rows)
    return scored, [told.text for told in await asyncio.gather(*asked)]


def test_losses_are_vllms_and_some_texts_too(
    engine: LlamaCpp, workshop: Workshop, rows: list[ScoredRow], record_property: Callable[[str, object], None]
) -> None:
    async def by_vllm() -> tuple[Logprobs, list[str]]:
        async with EngineClient(workshop.engine.url) as client:
            return await measure(client, workshop.base.name, rows)

    expected, texts = asyncio.run(by_vllm())
    served, others = engine.do(lambda client: measure(client, engine.base.name, rows))
    one, other = mean_loss(expected), mean_loss(served)
    equal = sum(left == right for left, right in zip(texts, others, strict=True)) / len(rows)
    record_property("vllm_nats", one.nats)
    record_property("llama_cpp_nats", other.nats)
    record_property("equal_texts", equal)
    assert one.tokens == other.tokens and abs(one.nats - other.nats) <= _NATS
    assert equal > 0
