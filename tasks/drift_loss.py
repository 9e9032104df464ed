"""Scores the champion on fresh rows: the child process of `tasks.watching`."""

from typing import Any

from data.rows import ScoredRow
from tasks.bases import parity_folder
from tasks.children import main, quieten
from turnout.errors import ScoringFailed
from turnout.references import Base, from_json


def run(job: dict[str, Any]) -> list[float]:
    """Each row's summed negative log-likelihood, in nats, of the adapter at the precision that it was trained with."""
    import math

    quieten()
    from tasks.losses import row_losses

    rows = from_json(list[ScoredRow], job["rows"])
    model = _champion(from_json(Base, job["base"]), job["adapter"], job["double_quantisation"])
    sums = row_losses(model, rows, job["batch_size"])
    if not all(map(math.isfinite, sums)):
        raise ScoringFailed("the champion's loss on the fresh rows is not finite", "Look at the fresh rows.")
    return sums


def _champion(base: Base, adapter: str, double_quantisation: bool) -> Any:
    from peft import PeftModel

    from tasks.quantise import compute_dtype, fits_in_bf16, load_bf16, load_nf4

    twin = parity_folder(base, double_quantisation)
    fast = twin.is_dir() and fits_in_bf16(base.path)
    model = PeftModel.from_pretrained(load_bf16(twin) if fast else load_nf4(base.path, double_quantisation), adapter)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = parameter.data.to(compute_dtype())
    return model.eval()


if __name__ == "__main__":
    main(run)
