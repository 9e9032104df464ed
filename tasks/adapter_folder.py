"""Saves a trained adapter as the two files that are registered, free of anything of this machine."""

import json
from pathlib import Path
from typing import Any

from turnout.digests import ADAPTER_FILES, adapter_files
from turnout.errors import TrainingFailed
from turnout.files import new_folder, write_json

CONFIG, WEIGHTS = ADAPTER_FILES


def save_adapter(model: Any, base_id: str, folder: Path) -> None:
    """Write the LoRA weights of a peft model into the new `folder`, in bf16, as engines serve them.

    Raises:
        TrainingFailed: there are none, they hold NaN or infinity, or training left them where they began.
    """
    import torch
    from peft import get_peft_model_state_dict

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(torch.bfloat16)
    check_weights(get_peft_model_state_dict(model, save_embedding_layers=False))
    with new_folder(folder) as new:
        model.save_pretrained(str(new), save_embedding_layers=False)
        for file in new.iterdir():
            if file.name not in (CONFIG, WEIGHTS):
                file.unlink()
        normalise(new, base_id)
        for file in adapter_files(new):
            file.chmod(0o644)


def normalise(folder: Path, base_id: str) -> None:
    """Make `adapter_config.json` the same wherever and however often it is written."""
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = base_id
    config["target_modules"] = sorted(config["target_modules"])
    write_json(folder / CONFIG, dict(sorted(config.items())))


def check_weights(weights: dict[str, Any]) -> None:
    """Raises TrainingFailed for weights that no training can have ended with."""
    import torch

    if not weights:
        raise TrainingFailed("the adapter is empty: it has no LoRA weights", "Check train.target_modules.")
    broken = [name for name, weight in weights.items() if not torch.isfinite(weight).all()]
    if broken:
        raise TrainingFailed(
            f"the adapter holds NaN or infinity in {len(broken)} of {len(weights)} tensors, first in {broken[0]}",
            "Lower train.learning_rate.",
        )
    # LoRA starts with B = 0, which makes the adapter the identity; it has moved if any B has.
    if not any(weight.any() for name, weight in weights.items() if "lora_B" in name):
        raise TrainingFailed(
            "the adapter did not move: every lora_B weight is still zero after training",
            "Raise train.learning_rate or train.epochs; if grad_norm in metrics.jsonl is 0 as well, report a bug.",
        )
