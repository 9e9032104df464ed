"""Watches a running training: writes each step's metrics, stops one that learns nothing, marks checkpoints whole."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from tasks.checkpoints import METRICS, mark_complete
from tasks.guards import check_step


class StepWatch(TrainerCallback):
    """Appends one JSON line a step, and one an evaluation, to `metrics.jsonl`.

    `seconds` is the step's own time, `tokens` counts from the start of the training, over all its attempts.
    """

    def __init__(self, run_folder: Path, tokens_before: int, tokens_seen: Callable[[], int]) -> None:
        self.file = run_folder / METRICS
        self.tokens_before, self.tokens_seen = tokens_before, tokens_seen
        self.tokens = tokens_before
        self.began = self.seconds = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.began = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.seconds = time.perf_counter() - self.began

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **kwargs: Any) -> None:
        where = {"step": state.global_step, "total_steps": state.max_steps, "epoch": round(state.epoch or 0.0, 4)}
        if "eval_loss" in logs:
            self._write(where | {"eval_loss": logs["eval_loss"]})
        elif "loss" in logs:
            check_step(state.global_step, logs)
            tokens = self.tokens_before + self.tokens_seen()
            speed = (tokens - self.tokens) / self.seconds if self.seconds else 0.0
            self.tokens = tokens
            self._write(
                where
                | {
                    "loss": logs["loss"],
                    "grad_norm": logs["grad_norm"],
                    "learning_rate": logs["learning_rate"],
                    "tokens": tokens,
                    "seconds": round(self.seconds, 4),
                    "tokens_per_second": round(speed, 1),
                }
            )

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        mark_complete(Path(args.output_dir) / f"checkpoint-{state.global_step}")

    def _write(self, line: dict[str, Any]) -> None:
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
