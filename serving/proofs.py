"""Keeps proofs: one for each adapter, served base and engine build, in `proofs/<key>.json`."""

from pathlib import Path
from typing import Literal

from serving.measure import Logprobs
from serving.proof import Proof
from turnout.digests import canonical_json, json_sha256
from turnout.files import read_state, write_atomically, write_json
from turnout.paths import Home
from turnout.references import to_json

ProofState = Literal["proven", "stale", "missing"]
"""`stale`: proven on this base, but by another build of the engine."""


def keep_proof(home: Home, proof: Proof, logprobs: Logprobs) -> None:
    """Write `proof`, and beside it the answers' log-probabilities, four decimals each, a list a row."""
    file = _file(home, proof.adapter_sha256, proof.base_sha256, proof.build)
    rounded = [[round(value, 4) for value in row] for row in logprobs]
    write_atomically(file.with_suffix(".logprobs"), canonical_json(rounded) + "\n")
    write_json(file, to_json(proof))


def kept_proof(home: Home, adapter_sha256: str, base_sha256: str, build: str) -> Proof | None:
    return read_state(_file(home, adapter_sha256, base_sha256, build), Proof)


def answers_file(home: Home, adapter_sha256: str, base_sha256: str, build: str) -> Path:
    """Where the version's answers to validation prompts are kept, beside its proof."""
    return _file(home, adapter_sha256, base_sha256, build).with_suffix(".answers")


def proof_state(home: Home, adapter_sha256: str, base_sha256: str, build: str) -> ProofState:
    if kept_proof(home, adapter_sha256, base_sha256, build):
        return "proven"
    others = home.proofs.glob(f"{adapter_sha256[:16]}-{base_sha256[:16]}-*.json")
    return "stale" if any(read_state(other, Proof) for other in others) else "missing"


def _file(home: Home, adapter_sha256: str, base_sha256: str, build: str) -> Path:
    return home.proofs / f"{adapter_sha256[:16]}-{base_sha256[:16]}-{json_sha256(build)[:16]}.json"
