"""A proof's evidence for engines that only keep a list: what `listener` says of every prompt and adapter."""

from functools import partial
from pathlib import Path
from typing import Any

from registry.versions import Version
from serving.answers import Question
from serving.evidence import Evidence, KeptRow
from serving.placement import Placed, ensure_loaded
from serving.records import Engine
from tests.serving.yard import Yard

QUESTIONS = tuple(Question(f"row{i}", f"prompt {i}", "expected", (1, 2, 3 + i), 8) for i in range(3))
EVIDENCE = Evidence(
    [KeptRow(f"row{i}", [1, 2, 3, 9], [0, 0, 1, 1]) for i in range(2)],
    1.9,
    lambda: [([{"role": "user", "content": "hi"}], [1, 2, 3])],
    0.02,
    QUESTIONS,
)


def deploy(yard: Yard, engine: Engine, version: Version, evidence: Evidence | None = EVIDENCE, **more: Any) -> Placed:
    """Load a version, and with evidence prove it."""
    routed = yard.reconciler.follower.routed_version(version.name, version.number)
    load = partial(ensure_loaded, yard.home, engine, served_name=version.served_name)
    return load(
        adapter_folder=Path(routed.path), adapter_sha256=version.manifest.adapter_sha256, evidence=evidence, **more
    )
