"""Puts adapter versions onto an engine, proven, and takes them off again."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from serving.client import EngineClient
from serving.measure import Progress
from serving.proof import Evidence, Proof, Subject, check_files, prove
from serving.proofs import ProofState, keep_proof, kept_proof, proof_state
from serving.quick import quick_probe
from serving.records import Engine
from turnout.errors import EngineError, ProofFailed
from turnout.paths import Home


@dataclass(frozen=True)
class Placed:
    """A version on an engine. `proof` is None where no proof by this build is known; `proven_now`: it was just made."""

    name: str
    state: ProofState
    proof: Proof | None
    proven_now: bool


def ensure_loaded(
    home: Home,
    engine: Engine,
    *,
    served_name: str,
    adapter_folder: Path,
    adapter_sha256: str,
    evidence: Callable[[], Evidence] | None = None,
    progress: Progress | None = None,
) -> Placed:
    """Load the adapter under its immutable name, and prove it: in full once, later by the quick probe.

    Args:
        evidence: makes what a full proof needs; called only then. Without it a version that this engine's build
            has not proven is loaded all the same, and its state says so.

    Raises:
        LoadRefused: the engine does not take the adapter.
        ProofFailed: the adapter is unloaded again.
        EngineError: the engine does not answer, or has traffic while a full proof is due.
    """
    subject = Subject(
        served_name, adapter_folder, adapter_sha256, engine.base.name, engine.base.sha256, build=engine.build
    )
    return asyncio.run(_ensure_loaded(home, engine, subject, evidence, progress))


def unload(engine: Engine, served_name: str) -> None:
    """Free the name; requests in flight finish. Nothing happens where it is not loaded."""

    async def run() -> None:
        async with EngineClient(engine.url) as client:
            await client.unload_adapter(served_name)

    asyncio.run(run())


async def _ensure_loaded(
    home: Home,
    engine: Engine,
    subject: Subject,
    evidence: Callable[[], Evidence] | None,
    progress: Progress | None,
) -> Placed:
    check_files(subject.name, subject.folder, subject.adapter_sha256)
    async with EngineClient(engine.url) as client:
        await client.load_adapter(subject.name, subject.folder)
        try:
            return await _prove_or_probe(home, client, subject, evidence, progress)
        except ProofFailed:
            with suppress(EngineError):
                await client.unload_adapter(subject.name)
            raise


async def _prove_or_probe(
    home: Home,
    client: EngineClient,
    subject: Subject,
    evidence: Callable[[], Evidence] | None,
    progress: Progress | None,
) -> Placed:
    identity = (subject.adapter_sha256, subject.base_sha256, subject.build)
    if kept := kept_proof(home, *identity):
        await quick_probe(client, subject.name, kept.quick)
        check_files(subject.name, subject.folder, subject.adapter_sha256)
        return Placed(subject.name, "proven", kept, proven_now=False)
    if evidence is None:
        return Placed(subject.name, proof_state(home, *identity), None, proven_now=False)
    proof, logprobs = await prove(client, subject, evidence(), progress)
    keep_proof(home, proof, logprobs)
    return Placed(subject.name, "proven", proof, proven_now=True)
