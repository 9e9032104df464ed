"""Starts the training child, forwards its metrics while it runs, and gives the finished adapter."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.checkpoints import METRICS
from tasks.children import RESULT, run_module
from tasks.config import TrainConfig, train_settings
from tasks.memory import require_memory
from turnout.digests import adapter_files, adapter_sha256, json_sha256
from turnout.errors import TrainingFailed
from turnout.files import exclusive, read_state, write_json
from turnout.references import Adapter, Base, Dataset, from_json, to_json

IDENTITY = "identity.json"


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
        "config": train_settings(config),
    }
    digest = json_sha256(identity)
    known = read_state(run_folder / IDENTITY, dict)
    if known is None or known.get("digest") != digest:
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
    adapter = read_state(run_folder / RESULT, Adapter)
    if adapter is None:
        return None
    folder = run_folder / "adapter"
    if not all(file.is_file() for file in adapter_files(folder)) or adapter_sha256(folder) != adapter.adapter_sha256:
        return None
    # The folder may have been moved with its home since.
    return from_json(Adapter, to_json(adapter) | {"path": str(folder)})


class _Tail:
    """Follows `metrics.jsonl` from its beginning and hands on each line once."""

    def __init__(
        self,
        run_folder: Path,
        on_metrics: Callable[[dict[str, Any]], None],
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.file, self.on_metrics, self.progress = run_folder / METRICS, on_metrics, progress
        self.read = 0
        self.steps: list[dict[str, Any]] = []

    def forward(self) -> None:
        new = self._new_lines()
        for line in new:
            self.on_metrics(line)
        self.steps += [line for line in new if "loss" in line]
        if self.progress and self.steps:
            self.progress(_progress(self.steps))

    def _new_lines(self) -> list[dict[str, Any]]:
        if not self.file.is_file():
            return []
        if self.file.stat().st_size < self.read:
            self.read, self.steps = 0, []  # cut back to the checkpoint that the training goes on from
        with open(self.file, "rb") as file:
            file.seek(self.read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self.read += len(whole) + len(newline)
        return [json.loads(line) for line in whole.splitlines()]


def _progress(steps: list[dict[str, Any]]) -> Progress:
    last = steps[-1]
    recent = sorted(line["seconds"] for line in steps[-20:])
    left = recent[len(recent) // 2] * (last["total_steps"] - last["step"]) if len(recent) >= 3 else None
    text = f"loss {last['loss']:.3f}" + (f", {left:.0f} s left" if left is not None else "")
    return Progress(text, last["step"], last["total_steps"], last["loss"], left)
