"""/generate and /models/status with real engines of both kinds behind a real worker."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from serving.client import EngineClient
from serving.config import LlamaCppConfig
from serving.engine_life import stop_engine
from serving.engines import start_engine
from serving.gateway.launching import launch_workers, stop_workers, wait_workers
from serving.records import Engine
from serving.routes import NameRoutes, Replica, RoutedVersion, Routes
from tests.serving.conftest import Workshop
from tests.serving.gateway.conftest import HTTP, Site
from turnout.files import write_json
from turnout.references import to_json

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

YES_OR_NO = 'root ::= "yes" | "no"'
SCHEMA = {
    "type": "object",
    "properties": {"cause": {"type": "string", "enum": ["disk", "memory"]}},
    "required": ["cause"],
    "additionalProperties": False,
}
KINDS = ("vllm", "llama_cpp")


async def load(engine: Engine, workshop: Workshop) -> None:
    async with EngineClient(engine.url) as client:
        await client.load_adapter("bot-v1", workshop.one.folder)


@pytest.fixture(scope="module")
def gateway(workshop: Workshop) -> Iterator[Site]:
    """`bot` on an engine of each kind, vLLM's the primary."""
    home, base = workshop.home, workshop.base
    config = workshop.config.model_copy(
        update={"engines": KINDS, "llama_cpp": LlamaCppConfig(parallel=2), "max_model_len": 1024}
    )
    llama = start_engine(home, base, config, 8, kind="llama_cpp")
    try:
        replicas = []
        for engine, concurrent in ((workshop.engine, 128), (llama, 2)):
            asyncio.run(load(engine, workshop))
            replicas.append(Replica(engine.id, engine.url, base.sha256, ("bot-v1",), concurrent, engine.kind))
        bot = NameRoutes(1, {"1": RoutedVersion(workshop.one.sha256, str(workshop.one.folder), base.sha256)}, event=1)
        routes = Routes(1, {base.sha256: base}, {"bot": bot}, tuple(replicas))
        site = Site(home, config.gateway, [])
        write_json(home.routes, to_json(routes))
        launch_workers(home, config.gateway)
        wait_workers(home, config.gateway, 60)
        yield site
    finally:
        stop_workers(home)
        home.routes.unlink(missing_ok=True)
        stop_engine(home, llama)


def ask(site: Site, **fields: object) -> dict[str, object]:
    answer = HTTP.post(f"{site.url}/generate", json={"prompt": "Is a full disk a fault?", **fields}, timeout=120)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.parametrize("kind", KINDS)
def test_answers_keep_to_a_grammar_and_to_a_schema(gateway: Site, kind: str) -> None:
    told = ask(gateway, backend=kind, grammar=YES_OR_NO, max_tokens=8, task_type="classification")
    assert told["text"] in ("yes", "no")
    assert (told["backend_used"], told["model"]) == (kind, "bot-v1")
    assert int(str(told["completion_tokens"])) > 0
    assert float(str(told["tokens_per_second"])) > 0
    told = ask(gateway, backend=kind, json_schema=SCHEMA, max_tokens=32)
    assert json.loads(str(told["text"]))["cause"] in ("disk", "memory")


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_grammar_is_refused_with_the_engines_reason(gateway: Site, kind: str) -> None:
    body = {"prompt": "x", "backend": kind, "grammar": "root ::= (", "max_tokens": 4}
    answer = HTTP.post(f"{gateway.url}/generate", json=body, timeout=60)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"]
    assert ask(gateway, backend=kind, max_tokens=4)["backend_used"] == kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_counts_the_tokens_of_the_answer_in_one_piece(gateway: Site, kind: str) -> None:
    fields = {"backend": kind, "max_tokens": 12, "temperature": 0, "repetition_penalty": 1.1}
    whole = ask(gateway, **fields)
    body = {"prompt": "Is a full disk a fault?", **fields}
    streamed = HTTP.post(f"{gateway.url}/generate/stream", json=body, timeout=120)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    events = [block.split("\n") for block in streamed.text.strip().split("\n\n")]
    data = [json.loads(line.removeprefix("data: ")) for _, line in events]
    assert [name for name, _ in events] == ["event: token"] * (len(events) - 1) + ["event: done"]
    assert "".join(each["token"] for each in data[:-1]) == whole["text"]
    assert (data[-1]["completion_tokens"], data[-1]["backend_used"]) == (whole["completion_tokens"], kind)
    assert data[-1]["finish_reason"] == whole["finish_reason"]


def test_auto_prefers_the_idle_vllm(gateway: Site) -> None:
    told = ask(gateway, urgency="high", max_tokens=4)
    assert told["backend_used"] == "vllm"
    assert str(told["why"]).startswith("urgent, and vllm has room")


def test_the_status_of_both(gateway: Site) -> None:
    told = HTTP.get(f"{gateway.url}/models/status", timeout=30).json()
    assert [engine["kind"] for engine in told["engines"]] == list(KINDS)
    vllm, llama = told["engines"]
    sizes = {"vocabulary": 49152, "embedding": 576, "layers": 30}
    for engine in (vllm, llama):
        assert engine["available"] is True
        assert {name: engine[name] for name in sizes} == sizes
        assert engine["versions"] == ["bot-v1"]
        assert engine["memory_bytes"] > 50 * 2**20
        assert engine["load"]["counted_by"] == "engine"
    assert (vllm["context"], llama["context"]) == (2048, 1024)
    assert vllm["kv_cache"]["block_size"] > 0
    assert vllm["kv_cache"]["blocks"] > 0
    assert all(told["backends"][kind]["available"] for kind in KINDS)
