"""The openai SDK works against the gateway as it does against any hosted API."""

import openai
import pytest

from tests.serving.gateway.conftest import Site


@pytest.fixture
def client(site: Site) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{site.url}/v1", api_key="none", max_retries=0)


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="incidents", messages=[{"role": "user", "content": "hi"}], max_completion_tokens=5, user="u"
    )
    assert answer.model == "incidents-v2"
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 5


def test_streaming_chat(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(model="incidents", messages=[{"role": "user", "content": "hi"}], stream=True)
    )
    assert len(chunks) == 3
    assert {chunk.model for chunk in chunks} == {"incidents-v2"}
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)


def test_completions_and_models(client: openai.OpenAI) -> None:
    assert client.completions.create(model="incidents-v1", prompt=[1, 2, 3]).model == "incidents-v1"
    assert "incidents" in [model.id for model in client.models.list()]


def test_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=r"Known: .*incidents") as unknown:
        client.chat.completions.create(model="incident", messages=[])
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="incidents", messages=[], extra_body={"priority": 1})
    assert refused.value.param == "priority"
