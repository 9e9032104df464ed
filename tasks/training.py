"""Starts the training child, forwards its metrics while it runs, and gives the finished adapter."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic

from tasks.adapter_folder import adapter_files, adapter_sha256
from tasks.checkpoints import read_metrics
from tasks.children import RESULT, run_module
from tasks.config import TrainConfig
from tasks.memory import require_memory
from turnout.digests import json_sha256
from turnout.errors import TrainingFailed
from turnout.files import exclusive, read_json, write_json
from turnout.references import Adapter, Base, Dataset, from_json, to_json

IDENTITY = "identity.json"
NOT_IN_THE_RESULT = {"checkpoint_every_steps", "memory_budget_gb", "evaluate_each_epoch"}


def train_digest(config: TrainConfig) -> str:
    """The digest of the settings that a training's result depends on."""
    return json_sha256(config.model_dump(mode="json", exclude=NOT_IN_THE_RESULT))


@dataclass(frozen=True)
class Progress:
    """Where a training stands; `seconds_left` is None until a few steps are timed."""

    text: str
    step: int
    total: int
    loss: float
    seconds_left: float | None


def train(
    dataset: Dataset,
    base: Base,
    config: TrainConfig,
    *,
    run_folder: Path,
    on_metrics: Callable[[dict[str, Any]], None] = lambda line: None,
    progress: Callable[[Progress], None] | None = None,
) -> Adapter:
    """Train in a child process; one that was cut off goes on at its last checkpoint, a finished one is not repeated.

    `on_metrics` gets each new line of `metrics.jsonl`. Of two calls for one folder the second waits for the first.

    Raises:
        BadInput: a target module that the base does not have.
        ResourceShort: not enough memory or disk, before it starts or on the way.
        TrainingFailed: nothing was learned, or the process ended badly.
    """
    with exclusive(run_folder / "run.lock"):
        _claim(run_folder, dataset, base, config)
        if finished := _finished(run_folder):
            return finished
        require_memory(base.path, config, dataset.longest)
        tail = _Tail(run_folder, on_metrics, progress)
        run_module(
            "tasks.train",
            {"dataset": dataset, "base": base, "config": config, "run_folder": str(run_folder)},
            run_folder,
            on_poll=tail.forward,
            failure=TrainingFailed,
        )
        if adapter := _finished(run_folder):
            return adapter
        raise TrainingFailed(f"the training left no whole adapter in {run_folder}", "Run the same command again.")


def _claim(run_folder: Path, dataset: Dataset, base: Base, config: TrainConfig) -> None:
    """Make the folder this training's; what another training left in it is dropped."""
    identity = {
        "dataset": dataset.sha256,
        "template": dataset.template_sha256,
        "rows": [dataset.train_rows, dataset.train_tokens],
        "base": base.sha256,
        "config": config.model_dump(mode="json", exclude=NOT_IN_THE_RESULT),
    }
    digest = json_sha256(identity)
    known = read_json(run_folder / IDENTITY)
    if known is None or known["digest"] != digest:
        _clear(run_folder)
        write_json(run_folder / IDENTITY, {"digest": digest} | identity)


def _clear(run_folder: Path) -> None:
    import shutil

    for entry in run_folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif not entry.name.endswith(".lock"):
            entry.unlink()


def _finished(run_folder: Path) -> Adapter | None:
    """The adapter of a training that ended, if its files are the ones that it wrote."""
    try:
        adapter = from_json(Adapter, read_json(run_folder / RESULT))
    except pydantic.ValidationError:
        return None
    folder = run_folder / "adapter"
    if not all(file.is_file() for file in adapter_files(folder)) or adapter_sha256(folder) != adapter.adapter_sha256:
        return None
    # The folder may have been moved with its home since.
    return from_json(Adapter, to_json(adapter) | {"path": str(folder)})


class _Tail:
    """Follows `metrics.jsonl`: hands on the lines that are new since this call began."""

    def __init__(
        self,
        run_folder: Path,
        on_metrics: Callable[[dict[str, Any]], None],
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.run_folder, self.on_metrics, self.progress = run_folder, on_metrics, progress
        self.sent = max((line["step"] for line in read_metrics(run_folder)), default=0)
        self.seen: set[tuple[int, bool]] = set()
        self.began = time.monotonic()

    def forward(self) -> None:
        lines = read_metrics(self.run_folder)
        for line in lines:
            key = (line["step"], "loss" in line)
            if key not in self.seen:
                self.seen.add(key)
                if line["step"] > self.sent:
                    self.on_metrics(line)
        steps = [line for line in lines if "loss" in line]
        if self.progress and steps:
            self.progress(_progress(steps))


def _progress(steps: list[dict[str, Any]]) -> Progress:
    last = steps[-1]
    recent = sorted(line["seconds"] for line in steps[-20:])
    left = recent[len(recent) // 2] * (last["total_steps"] - last["step"]) if len(recent) >= 3 else None
    text = f"loss {last['loss']:.3f}" + (f", {left:.0f} s left" if left is not None else "")
    return Progress(text, last["step"], last["total_steps"], last["loss"], left)
