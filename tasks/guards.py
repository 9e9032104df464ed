"""What a training step must show to be worth going on from."""

import math

from turnout.errors import TrainingFailed


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
