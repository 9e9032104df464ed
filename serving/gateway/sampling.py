"""Sampling modes: which temperature, top_p and top_k a task gets that says nothing itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel, Field, model_validator

FIELDS = ("temperature", "top_p", "top_k", "repetition_penalty")
"""What a request may set itself."""


class SamplingMode(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """`top_k: 0` samples from all tokens, `temperature: 0` takes the likeliest."""

    temperature: float = Field(ge=0, le=2)
    top_p: float = Field(gt=0, le=1)
    top_k: int = Field(ge=0)


_MODES = {
    "creative": SamplingMode(temperature=0.9, top_p=0.95, top_k=50),
    "balanced": SamplingMode(temperature=0.7, top_p=0.9, top_k=40),
    "precise": SamplingMode(temperature=0.3, top_p=0.8, top_k=20),
    "deterministic": SamplingMode(temperature=0.0, top_p=1.0, top_k=1),
}
_TASKS = {
    "code_generation": "precise",
    "creative_writing": "creative",
    "question_answering": "precise",
    "summarization": "precise",
    "translation": "precise",
    "classification": "deterministic",
    "extraction": "deterministic",
    "chat": "balanced",
}


class SamplingConfig(BaseModel, frozen=True, extra="forbid"):
    """`tasks` says which of the `modes` a `task_type` gets. Others get the `urgent` mode where the request's urgency
    is high, else the `default` one. Modes and tasks that are given here change or join the built-in ones."""

    modes: dict[str, SamplingMode] = _MODES
    tasks: dict[str, str] = _TASKS
    urgent: str = "deterministic"
    default: str = "balanced"

    @model_validator(mode="before")
    @classmethod
    def built_in_ones_stay(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        joined = dict(given)
        if isinstance(modes := given.get("modes"), dict):
            built_in = {name: mode.model_dump() for name, mode in _MODES.items()}
            changed = {
                name: {**built_in.get(name, {}), **mode} if isinstance(mode, dict) else mode
                for name, mode in modes.items()
            }
            joined["modes"] = built_in | changed
        if isinstance(tasks := given.get("tasks"), dict):
            joined["tasks"] = _TASKS | tasks
        return joined

    @model_validator(mode="after")
    def modes_are_known(self) -> Self:
        wanted = {f"tasks.{task}": mode for task, mode in self.tasks.items()}
        for where, mode in {**wanted, "urgent": self.urgent, "default": self.default}.items():
            if mode not in self.modes:
                known = ", ".join(self.modes)
                raise ValueError(f"serving.gateway.sampling.{where}={mode!r}: the modes are {known}")
        return self


@dataclass(frozen=True)
class Sampling:
    """The `values` that an answer is sampled with, and the `mode` that they came from, but for the `given` ones."""

    mode: str
    values: dict[str, float]
    given: tuple[str, ...]
    task_type: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {"mode": self.mode, "task_type": self.task_type, **self.values, "given": list(self.given)}


def choose_sampling(config: SamplingConfig, request: Mapping[str, Any]) -> Sampling:
    """The mode for the request's `task_type` and `urgency`, and over its values those that the request gives."""
    task = request.get("task_type")
    mode = config.tasks.get(task) if task is not None else None
    if mode is None:
        mode = config.urgent if request.get("urgency") == "high" else config.default
    given = {field: request[field] for field in FIELDS if field in request}
    return Sampling(mode, config.modes[mode].model_dump() | given, tuple(given), task)
