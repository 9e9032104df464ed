"""What deploy and release get: evidence, verdicts, and versions on an engine."""

from pathlib import Path
from typing import Any

from serving.evidence import Evidence
from serving.records import Engine
from tasks.deploying import Served
from tasks.gate import Rule, Verdict

PASSED = Verdict(True, (Rule("proof", True, 0.001, 0.02, "fine"),))
REFUSED = Verdict(False, (Rule("proof", False, 0.5, 0.02, "too far"),))
EVIDENCE = Evidence([], 1.9, tuple, 0.02)


def served(engine: Engine, folder: Path, replaces: str = "", **more: Any) -> Served:
    figures = {"eval_loss": 1.9, "difference": 0.001} | more
    return Served(engine.id, engine.url, 0.0, engine.base, str(folder), 0.02, replaces, **figures)
