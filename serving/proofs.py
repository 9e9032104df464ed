"""Keeps proofs: one for each adapter, served base and engine build, in `proofs/<key>.json`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from serving.measure import Logprobs
from serving.proof import Proof
from turnout.digests import canonical_json, json_sha256
from turnout.files import read_state, write_atomically, write_json
from turnout.paths import Home
from turnout.references import to_json

ProofState = Literal["proven", "stale", "elsewhere", "missing"]
"""`stale`: proven on this base, but by another build of the engine; `elsewhere`: only by another kind of engine."""


@dataclass(frozen=True)
class Refusal:
    """Why a build cannot serve a version that another kind of engine serves."""

    why: str


def keep_proof(home: Home, proof: Proof, logprobs: Logprobs) -> None:
    """Write `proof`, and beside it the answers' log-probabilities, four decimals each, a list a row."""
    file = _file(home, proof.adapter_sha256, proof.base_sha256, proof.build)
    rounded = [[round(value, 4) for value in row] for row in logprobs]
    write_atomically(file.with_suffix(".logprobs"), canonical_json(rounded) + "\n")
    write_json(file, to_json(proof))
    file.with_suffix(".refused").unlink(missing_ok=True)


def keep_refusal(home: Home, adapter_sha256: str, base_sha256: str, build: str, why: str) -> None:
    """Note that a build does not serve a version, so that nobody tries again and again."""
    file = _file(home, adapter_sha256, base_sha256, build).with_suffix(".refused")
    write_json(file, to_json(Refusal(why)))


def kept_refusal(home: Home, adapter_sha256: str, base_sha256: str, build: str) -> Refusal | None:
    return read_state(_file(home, adapter_sha256, base_sha256, build).with_suffix(".refused"), Refusal)


def kept_proof(home: Home, adapter_sha256: str, base_sha256: str, build: str) -> Proof | None:
    return read_state(_file(home, adapter_sha256, base_sha256, build), Proof)


def answers_file(home: Home, adapter_sha256: str, base_sha256: str, build: str) -> Path:
    """Where the version's answers to validation prompts are kept, beside its proof."""
    return _file(home, adapter_sha256, base_sha256, build).with_suffix(".answers")


def proof_state(home: Home, adapter_sha256: str, base_sha256: str, build: str) -> ProofState:
    """What is known of an adapter on a base. `build` begins with the kind of engine, and may be that alone."""
    if kept_proof(home, adapter_sha256, base_sha256, build):
        return "proven"
    files = home.proofs.glob(f"{adapter_sha256[:16]}-{base_sha256[:16]}-*.json")
    kinds = {proof.build.partition(" ")[0] for file in files if (proof := read_state(file, Proof))}
    if build.partition(" ")[0] in kinds:
        return "stale"
    return "elsewhere" if kinds else "missing"


def _file(home: Home, adapter_sha256: str, base_sha256: str, build: str) -> Path:
    return home.proofs / f"{adapter_sha256[:16]}-{base_sha256[:16]}-{json_sha256(build)[:16]}.json"
