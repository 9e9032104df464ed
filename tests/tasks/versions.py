"""Registered versions with kept proofs, and an engine that takes adapters, for the tests of deploy and release."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from registry.versions import Version
from serving.config import ServingConfig
from serving.placement import loaded_adapters
from serving.ports import free_port
from serving.proof import Evidence, Proof
from serving.proofs import keep_proof
from serving.records import Engine
from tasks.deploying import Served
from tasks.gate import Rule, Verdict
from tests.registry.material import BASE, NAME, register_one
from turnout.paths import Home

LISTENER = (sys.executable, str(Path(__file__).parents[1] / "serving" / "listener.py"))
PASSED = Verdict(True, (Rule("proof", True, 0.001, 0.02, "fine"),))
REFUSED = Verdict(False, (Rule("proof", False, 0.5, 0.02, "too far"),))
EVIDENCE = Evidence([], 1.9, tuple, 0.02)
SERVING_BASE = replace(BASE, name="tiny")


def settings(**more: Any) -> ServingConfig:
    return ServingConfig(**{"base": "original", "port": free_port("127.0.0.1"), "command": LISTENER, **more})


def new_version(client: MlflowClient, home: Home, weights: bytes, name: str = NAME) -> Version:
    return register_one(client, home, name, weights)


def prove(home: Home, engine: Engine, version: Version, difference: float = 0.001) -> None:
    """Keep a proof as if the engine's build had passed it; the quick probe then has nothing to repeat."""
    digest = version.manifest.adapter_sha256
    values: dict[str, Any] = dict.fromkeys(Proof.__dataclass_fields__, 0)
    values |= {"name": version.served_name, "adapter_sha256": digest, "base_sha256": engine.base.sha256}
    values |= {"base_name": engine.base.name, "build": engine.build, "rows_sha256": EVIDENCE.rows_sha256}
    values |= {"trained_nats": EVIDENCE.trained_nats, "served_nats": 1.9, "difference": difference, "quick": ()}
    keep_proof(home, Proof(**values | {"proven_at": "2026-01-01T00:00:00+00:00"}), [])


def served(engine: Engine, folder: Path, replaces: str = "", **more: Any) -> Served:
    figures = {"eval_loss": 1.9, "difference": 0.001} | more
    return Served(engine.id, engine.url, 0.0, engine.base, str(folder), 0.02, replaces, **figures)


def names(engine: Engine) -> Sequence[str]:
    return sorted(loaded_adapters(engine))
