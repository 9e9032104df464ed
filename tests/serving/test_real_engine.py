"""Loading, proving and asking on a real vLLM."""

import asyncio
import os
import shutil
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from serving.answers import Question
from serving.ask import ask
from serving.client import EngineClient
from serving.evidence import Evidence, kept_evidence
from serving.gateway.launching import stop_workers
from serving.measure import wait_idle
from serving.placement import Placed, ensure_loaded, unload
from serving.proofs import keep_proof, kept_proof
from serving.reconciler_process import stop_reconciler
from serving.reply import is_healthy
from serving.routes import NameRoutes, RoutedVersion, Routes, read_routes, update_routes
from serving.served import served_versions
from serving.stack import up
from tests.serving.conftest import Workshop
from tests.serving.material import FILES, MadeAdapter, find_engine
from turnout.errors import EngineError, LoadRefused, NotFound, ProofFailed

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
T = TypeVar("T")


def on(workshop: Workshop, call: Callable[[EngineClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with EngineClient(workshop.engine.url) as client:
            return await call(client)

    return asyncio.run(run())


def put(workshop: Workshop, name: str, adapter: MadeAdapter, evidence: Evidence | None = None) -> Placed:
    return ensure_loaded(
        workshop.home,
        workshop.engine,
        served_name=name,
        adapter_folder=adapter.folder,
        adapter_sha256=adapter.sha256,
        evidence=evidence,
    )


def served(workshop: Workshop) -> dict[str, str]:
    return on(workshop, lambda client: client.models())


@pytest.fixture
def proofless(workshop: Workshop) -> Iterator[None]:
    """No proofs are kept when the test begins; those that were there come back after it."""
    aside = workshop.home.root / "aside"
    if workshop.home.proofs.exists():
        workshop.home.proofs.rename(aside)
    yield
    shutil.rmtree(workshop.home.proofs, ignore_errors=True)
    if aside.exists():
        aside.rename(workshop.home.proofs)


def test_loading_again_is_nothing_new_and_unloading_frees(workshop: Workshop) -> None:
    async def load_twice(client: EngineClient) -> None:
        await client.load_adapter("again-v1", workshop.one.folder)
        await client.load_adapter("again-v1", workshop.one.folder)

    on(workshop, load_twice)
    assert served(workshop)["again-v1"] == str(workshop.one.folder)
    with pytest.raises(LoadRefused, match=r"serves again-v1 from .* already"):
        on(workshop, lambda client: client.load_adapter("again-v1", workshop.other.folder))
    unload(workshop.engine, "again-v1")
    unload(workshop.engine, "again-v1")
    assert "again-v1" not in served(workshop)


def broken(folder: Path) -> None:
    weights = folder / FILES[1]
    weights.write_bytes(weights.read_bytes()[:5000])


def foreign(folder: Path) -> None:
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / FILES[1])
    save_file({name.replace("q_proj", "no_such_proj"): value for name, value in weights.items()}, folder / FILES[1])


def missing(folder: Path) -> None:
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("settings", "spoil", "reason"),
    [
        ({"rank": 16}, None, "rank 16 is greater than max_lora_rank 8"),
        ({"use_dora": True}, None, "(?i)dora"),
        ({}, foreign, "no_such_proj"),
        ({}, broken, "500"),
        ({}, missing, "(?i)no adapter found|404"),
    ],
)
def test_what_the_engine_refuses(
    workshop: Workshop, tmp_path: Path, settings: dict[str, Any], spoil: Callable[[Path], None] | None, reason: str
) -> None:
    adapter = workshop.make(tmp_path / "made", seed=7, **settings)
    folder = Path(shutil.copytree(adapter.folder, tmp_path / "spoilt"))
    if spoil:
        spoil(folder)
    with pytest.raises(LoadRefused, match=reason):
        on(workshop, lambda client: client.load_adapter("refused-v1", folder))
    assert "refused-v1" not in served(workshop) and is_healthy(workshop.engine.url)


def test_a_relative_path_is_refused(workshop: Workshop) -> None:
    with pytest.raises(LoadRefused, match="relative path"):
        on(workshop, lambda client: client.load_adapter("relative-v1", Path("adapters/x")))


def test_a_sound_adapter_is_proven_once_and_then_probed(
    workshop: Workshop, evidence: Evidence, proofless: None
) -> None:
    question = Question("asked", "a prompt", "an answer", tuple(evidence.rows[0].input_ids[:12]), 8)
    evidence = replace(evidence, questions=(question,))
    first = put(workshop, "sound-v1", workshop.one, evidence)
    proof = first.proof
    assert proof and first.proven_now and first.state == "proven"
    assert proof.difference <= evidence.tolerance and proof.rows == len(evidence.rows) and proof.tokens > 50
    assert [each.row_sha256 for each in first.answers] == ["asked"] and first.answers[0].tokens > 0
    assert proof.effect_nats > proof.effect_limit and proof.served_base_nats != proof.served_nats
    print(proof)
    again = put(workshop, "sound-v1", workshop.one, evidence)
    assert not again.proven_now and again.proof == proof and again.answers == first.answers
    assert kept_evidence(workshop.home, workshop.one.sha256, workshop.base.sha256)
    # Another loss was trained, as by a scorer that changed: the kept proof is not about that.
    shifted = replace(evidence, trained_nats=evidence.trained_nats + 0.001)
    assert put(workshop, "sound-v1", workshop.one, shifted).proven_now
    # Loaded anew, as after a restart, with nothing but the kept proof to go by.
    unload(workshop.engine, "sound-v1")
    assert not put(workshop, "sound-v1", workshop.one).proven_now
    assert status_of(workshop, "sound", 1) == (True, "proven")


def test_an_unproven_version_says_so(workshop: Workshop, proofless: None) -> None:
    assert put(workshop, "unproven-v1", workshop.one).state == "missing"
    assert status_of(workshop, "unproven", 1) == (True, "missing")
    unload(workshop.engine, "unproven-v1")


def status_of(workshop: Workshop, name: str, version: int) -> tuple[bool, str]:
    rows = [
        row
        for row in served_versions(workshop.home, read_routes(workshop.home))
        if (row.name, row.version) == (name, version)
    ]
    return (rows[0].loaded, rows[0].proof) if rows else (False, "")


def refuse(workshop: Workshop, name: str, adapter: MadeAdapter, evidence: Evidence, reason: str) -> None:
    with pytest.raises(ProofFailed, match=reason):
        put(workshop, name, adapter, evidence)
    assert name not in served(workshop)
    assert kept_proof(workshop.home, adapter.sha256, workshop.base.sha256, workshop.engine.build) is None


def test_another_template_is_noticed(workshop: Workshop, evidence: Evidence, proofless: None) -> None:
    probes = list(evidence.probes())
    messages, ids = probes[3]
    tampered = replace(evidence, probes=lambda: [*probes[:3], (messages, [*ids[:-1], ids[-1] + 1])])
    refuse(workshop, "template-v1", workshop.one, tampered, f"template: .*from position {len(ids) - 1} on")


def test_answers_must_end_where_the_engine_stops(workshop: Workshop, evidence: Evidence, proofless: None) -> None:
    rows = [replace(row, input_ids=row.input_ids[:-1], loss_mask=row.loss_mask[:-1]) for row in evidence.rows]
    refuse(workshop, "endless-v1", workshop.one, replace(evidence, rows=rows), "template: answers end with the token")


def test_an_adapter_without_effect_is_noticed(
    workshop: Workshop, evidence: Evidence, proofless: None, tmp_path: Path
) -> None:
    idle = workshop.make(tmp_path / "made", scale=0.0)
    refuse(workshop, "idle-v1", idle, evidence, "effect: .*differ from the base's by 0.000")


def test_another_loss_than_in_training_is_noticed(workshop: Workshop, evidence: Evidence, proofless: None) -> None:
    off = replace(evidence, trained_nats=evidence.trained_nats + 0.1)
    refuse(workshop, "parity-v1", workshop.one, off, r"parity: .*limit is 0\.02")


def test_a_damaged_file_is_noticed(workshop: Workshop, evidence: Evidence, proofless: None, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(workshop.one.folder, tmp_path / "damaged"))
    with open(folder / FILES[1], "r+b") as weights:
        weights.seek(-1, os.SEEK_END)
        weights.write(b"\x01")
    refuse(workshop, "damaged-v1", replace(workshop.one, folder=folder), evidence, "files: .*has sha256")


def test_the_quick_probe_notices_another_adapter(workshop: Workshop, evidence: Evidence, proofless: None) -> None:
    proof = put(workshop, "quick-v1", workshop.one, evidence).proof
    assert proof
    keep_proof(workshop.home, replace(proof, adapter_sha256=workshop.other.sha256), [])
    # Loaded by somebody else, it stays: it may have traffic.
    on(workshop, lambda client: client.load_adapter("quick-v3", workshop.other.folder))
    with pytest.raises(ProofFailed, match="quick probe"):
        put(workshop, "quick-v3", workshop.other)
    assert "quick-v3" in served(workshop)
    unload(workshop.engine, "quick-v3")
    with pytest.raises(ProofFailed, match="quick probe"):
        put(workshop, "quick-v2", workshop.other, evidence)
    assert "quick-v2" not in served(workshop)


def test_asking_streams_and_counts(workshop: Workshop) -> None:
    put(workshop, "asked-v1", workshop.one)
    pieces: list[str] = []
    answer = ask(workshop.engine.url, "asked-v1", "Say something.", max_tokens=12, on_text=pieces.append)
    assert answer.model == "asked-v1" and "".join(pieces) == answer.text and len(pieces) > 1
    assert answer.ttft_ms > 0 and answer.tokens_per_second > 0 and 0 < answer.tokens <= 12
    with pytest.raises(NotFound, match="nobody-v1 is not served"):
        ask(workshop.engine.url, "nobody-v1", "hello")


def test_no_proof_beside_traffic(workshop: Workshop) -> None:
    busy = threading.Thread(
        target=ask, args=(workshop.engine.url, workshop.base.name, "Count."), kwargs={"max_tokens": 200}
    )
    busy.start()
    try:

        async def hurry(client: EngineClient) -> None:
            while await client.is_idle():
                await asyncio.sleep(0.05)
            await wait_idle(client, limit_s=0.2)

        with pytest.raises(EngineError, match=r"still has 1 running .*idle engine only"):
            on(workshop, hurry)
    finally:
        busy.join()


def test_a_killed_engine_comes_back_with_its_champion(workshop: Workshop, evidence: Evidence, proofless: None) -> None:
    put(workshop, "hero-v1", workshop.one, evidence)
    base = workshop.base
    version = RoutedVersion(workshop.one.sha256, str(workshop.one.folder), base.sha256)
    update_routes(workshop.home, lambda _: Routes(0, {base.sha256: base}, {"hero": NameRoutes(1, {"1": version})}))
    engine = find_engine(workshop.home)
    assert engine
    os.kill(engine.pid, signal.SIGKILL)
    with pytest.raises(EngineError, match=r"engine at http://127\.0\.0\.1:\d+ does not answer"):
        ask(workshop.engine.url, "hero-v1", "Still there?")
    assert status_of(workshop, "hero", 1)[0] is False
    try:
        stack = up(workshop.home, workshop.config, follow_log=False)
        routes = stack.outcome.routes
        assert stack.engines[0].pid != engine.pid and routes and routes.replicas[0].ready == ("hero-v1",)
        assert stack.outcome.problems == {}
        assert status_of(workshop, "hero", 1) == (True, "proven")
        assert ask(stack.workers[0].url, "hero", "Hello", max_tokens=4).model == "hero-v1"
        assert up(workshop.home, workshop.config, follow_log=False).engines == stack.engines
    finally:
        stop_reconciler(workshop.home)
        stop_workers(workshop.home)
        workshop.home.routes.unlink()
