"""Puts adapter versions onto an engine, proven, and takes them off again."""

import asyncio
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
    evidence: Evidence | None = None,
    progress: Progress | None = None,
) -> Placed:
    """Load the adapter under its immutable name, and prove it: in full once, later by the quick probe.

    Args:
        evidence: what training knows. A kept proof counts only for the same rows and the same trained loss. Without
            it, any kept proof counts, and a version that this engine's build has not proven is loaded all the same,
            and its state says so.

    Raises:
        LoadRefused: the engine does not take the adapter.
        ProofFailed: the adapter is unloaded again, if this call loaded it.
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


def loaded_adapters(engine: Engine) -> dict[str, str]:
    """Served name → folder of the adapters on `engine`.

    Raises:
        EngineError: it does not answer.
    """

    async def run() -> dict[str, str]:
        async with EngineClient(engine.url, timeout_s=5) as client:
            return await client.models()

    return {name: folder for name, folder in asyncio.run(run()).items() if name != engine.base.name}


async def _ensure_loaded(
    home: Home,
    engine: Engine,
    subject: Subject,
    evidence: Evidence | None,
    progress: Progress | None,
) -> Placed:
    check_files(subject.name, subject.folder, subject.adapter_sha256)
    async with EngineClient(engine.url) as client:
        loaded_now = await client.load_adapter(subject.name, subject.folder)
        try:
            return await _prove_or_probe(home, client, subject, evidence, progress)
        except ProofFailed:
            if loaded_now:
                with suppress(EngineError):
                    await client.unload_adapter(subject.name)
            raise


async def _prove_or_probe(
    home: Home,
    client: EngineClient,
    subject: Subject,
    evidence: Evidence | None,
    progress: Progress | None,
) -> Placed:
    identity = (subject.adapter_sha256, subject.base_sha256, subject.build)
    kept = kept_proof(home, *identity)
    if kept and (evidence is None or _is_about(kept, evidence)):
        await quick_probe(client, subject.name, kept.quick)
        check_files(subject.name, subject.folder, subject.adapter_sha256)
        return Placed(subject.name, "proven", kept, proven_now=False)
    if evidence is None:
        return Placed(subject.name, proof_state(home, *identity), None, proven_now=False)
    proof, logprobs = await prove(client, subject, evidence, progress)
    keep_proof(home, proof, logprobs)
    return Placed(subject.name, "proven", proof, proven_now=True)


def _is_about(kept: Proof, evidence: Evidence) -> bool:
    return (kept.rows_sha256, kept.trained_nats) == (evidence.rows_sha256, evidence.trained_nats)
