"""Puts adapter versions onto an engine, proven, and takes them off again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from serving.answers import answer_all
from serving.client import EngineClient
from serving.config import ProveOn
from serving.evidence import Evidence, keep_evidence, kept_evidence
from serving.measure import Progress
from serving.proof import Proof, Subject, check_files, prove
from serving.proofs import ProofState, answers_file, keep_proof, keep_refusal, kept_proof, proof_state
from serving.proving import quiet_engine
from serving.quick import quick_probe
from serving.records import Engine
from turnout.errors import EngineError, LoadRefused, ProofFailed
from turnout.paths import Home
from turnout.references import Answer

_PROOF_TIMEOUT_S = 1800.0
"""A request of a proof that yields the cores to live traffic takes as long as that leaves it."""


@dataclass(frozen=True)
class Placed:
    """A version on an engine. `proof` is None where no proof by this build is known; `proven_now`: it was just made."""

    name: str
    state: ProofState
    proof: Proof | None
    proven_now: bool
    answers: tuple[Answer, ...] = ()


def ensure_loaded(
    home: Home,
    engine: Engine,
    *,
    served_name: str,
    adapter_folder: Path,
    adapter_sha256: str,
    evidence: Evidence | None = None,
    progress: Progress | None = None,
    prove_on: ProveOn | None = None,
    wait: bool = True,
) -> Placed:
    """Load the adapter under its immutable name, and prove it: in full once, later by the quick probe.

    A full proof is made on an engine without traffic, which may be another one of the same build.

    Args:
        evidence: what training knows. A kept proof counts only for the same rows and the same trained loss. Without
            it, any kept proof counts, and a version that this engine's build has not proven is loaded all the same,
            and its state says so.
        prove_on: as `serving.prove_on`; if left out, as the engine was started with.
        wait: for another process that proves.

    Raises:
        LoadRefused: the engine does not take the adapter.
        ProofFailed: the adapter is unloaded again, if this call loaded it.
        EngineError: the engine does not answer, or no engine without traffic can be had while a full proof is due.
        BlockingIOError: another process proves, and `wait` is false.
    """
    subject = Subject(
        served_name, adapter_folder, adapter_sha256, engine.base.name, engine.base.sha256, build=engine.build
    )
    check_files(served_name, adapter_folder, adapter_sha256)
    kept = kept_proof(home, adapter_sha256, subject.base_sha256, subject.build)
    if evidence is None or (kept and _is_about(kept, evidence)):
        return asyncio.run(_load_and_probe(home, engine, subject, kept, evidence, progress))
    try:
        with quiet_engine(home, engine, prove_on, progress, wait=wait) as place:
            proven = asyncio.run(_load_and_prove(home, place, subject, evidence, progress))
    except (LoadRefused, ProofFailed) as error:
        if proof_state(home, adapter_sha256, subject.base_sha256, engine.kind) == "elsewhere":
            keep_refusal(home, adapter_sha256, subject.base_sha256, subject.build, error.message)
        raise
    if place.id != engine.id:
        asyncio.run(_load_and_probe(home, engine, subject, proven.proof, None, None))
    return proven


def unload(engine: Engine, served_name: str) -> None:
    """Free the name; requests in flight finish. Nothing happens where it is not loaded."""

    async def run() -> None:
        async with EngineClient(engine.url) as client:
            await client.unload_adapter(served_name)

    asyncio.run(run())


def loaded_adapters(engine: Engine) -> dict[str, str]:
    """Served name → folder of the adapters on `engine`.

    Raises:
        EngineError: it does not answer.
    """

    async def run() -> dict[str, str]:
        async with EngineClient(engine.url, timeout_s=5) as client:
            return await client.models()

    return {name: folder for name, folder in asyncio.run(run()).items() if name != engine.base.name}


async def _load_and_prove(
    home: Home, engine: Engine, subject: Subject, evidence: Evidence, progress: Progress | None
) -> Placed:
    async with _loaded(engine, subject, _PROOF_TIMEOUT_S) as client:
        proof, logprobs = await prove(client, subject, evidence, progress)
        keep_evidence(home, subject.adapter_sha256, subject.base_sha256, evidence)
        keep_proof(home, proof, logprobs)
        answers = await _answers(home, client, engine, subject, evidence, progress)
    return Placed(subject.name, "proven", proof, proven_now=True, answers=answers)


async def _load_and_probe(
    home: Home,
    engine: Engine,
    subject: Subject,
    kept: Proof | None,
    evidence: Evidence | None,
    progress: Progress | None,
) -> Placed:
    async with _loaded(engine, subject) as client:
        if kept is None:
            state = proof_state(home, subject.adapter_sha256, subject.base_sha256, subject.build)
            return Placed(subject.name, state, None, proven_now=False)
        await quick_probe(client, subject.name, kept.quick)
        check_files(subject.name, subject.folder, subject.adapter_sha256)
        if evidence is None:
            return Placed(subject.name, "proven", kept, proven_now=False)
        if kept_evidence(home, subject.adapter_sha256, subject.base_sha256) is None:
            keep_evidence(home, subject.adapter_sha256, subject.base_sha256, evidence)
        answers = await _answers(home, client, engine, subject, evidence, progress)
    return Placed(subject.name, "proven", kept, proven_now=False, answers=answers)


async def _answers(
    home: Home, client: EngineClient, engine: Engine, subject: Subject, evidence: Evidence, progress: Progress | None
) -> tuple[Answer, ...]:
    file = answers_file(home, subject.adapter_sha256, subject.base_sha256, subject.build)
    return await answer_all(client, subject.name, evidence.questions, engine.config.max_model_len, file, progress)


@asynccontextmanager
async def _loaded(engine: Engine, subject: Subject, timeout_s: float = 300.0) -> AsyncIterator[EngineClient]:
    """A client of the engine with the adapter loaded; one that fails its proof goes, unless it was there before."""
    async with EngineClient(engine.url, timeout_s=timeout_s) as client:
        loaded_now = await client.load_adapter(subject.name, subject.folder)
        try:
            yield client
        except ProofFailed:
            if loaded_now:
                with suppress(EngineError):
                    await client.unload_adapter(subject.name)
            raise


def _is_about(kept: Proof, evidence: Evidence) -> bool:
    return (kept.rows_sha256, kept.trained_nats) == (evidence.rows_sha256, evidence.trained_nats)
