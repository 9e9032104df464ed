"""Watches a running training: writes each step's metrics, stops one that learns nothing, marks checkpoints whole."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from tasks.checkpoints import METRICS, mark_complete
from turnout.errors import TrainingFailed


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


def check_step(step: int, logs: dict[str, float]) -> None:
    """Stop a training that cannot learn. The gradient's norm is over the LoRA weights, the only trainable ones.

    Raises:
        TrainingFailed: NaN or infinite loss or gradients, or gradients that are all zero.
    """
    loss, norm = logs["loss"], logs["grad_norm"]
    if not math.isfinite(loss) or not math.isfinite(norm):
        raise TrainingFailed(
            f"step {step}: the loss is {loss} and the gradients' norm {norm}",
            "Lower train.learning_rate or train.max_grad_norm, or raise train.warmup_steps.",
        )
    if norm == 0:
        raise TrainingFailed(
            f"step {step}: the gradients of all LoRA weights are zero (loss {loss:.4f}), so nothing is learned",
            "No setting helps: a kernel without gradients is in use. Report it with the versions in requirements/.",
        )
