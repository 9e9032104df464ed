"""A flow of the pipeline's last steps alone: the gate passed a version, and a person may have to."""

from dataclasses import asdict
from typing import Any

from prefect import flow

from registry.store import connect
from registry.versions import get_version
from tasks.approval import decide
from tasks.config import GateConfig
from tests.registry.material import NAME
from tests.tasks.versions import PASSED
from turnout.paths import home

__all__ = ["judged"]


@flow
def judged(number: int = 2, approval: str = "required", timeout_s: int = 60, promote: bool = True) -> dict[str, Any]:
    version = get_version(connect(home()), NAME, number)
    config = GateConfig.model_validate({"approval": approval})
    return asdict(decide(config, version, PASSED, promote, timeout_s))
