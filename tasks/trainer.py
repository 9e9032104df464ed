"""TRL's trainer, with the few things that this project does otherwise. Imports TRL: import it where training starts."""

from typing import Any

import torch
from trl import SFTTrainer


class AdapterTrainer(SFTTrainer):
    """Counts the tokens that it trains on, and on a CPU makes logits only for the answers' tokens."""

    tokens_seen = 0

    def training_step(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        mask = inputs.get("attention_mask")
        self.tokens_seen += int(mask.sum()) if mask is not None else inputs["input_ids"].numel()
        return super().training_step(model, inputs, *args, **kwargs)

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The mean negative log-likelihood of the answers' tokens.

        TRL's own fused head leaves the other positions out on a GPU only. On a CPU with a small model the head
        is a quarter of the work, and most of it would be thrown away.
        """
        if inputs["input_ids"].device.type != "cpu" or return_outputs or self.aux_loss_enabled:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        labels = inputs["labels"]
        asked = (labels[:, 1:] != -100).any(dim=0).nonzero().flatten()
        others = {name: value for name, value in inputs.items() if name != "labels"}
        logits = model(**others, logits_to_keep=asked, use_cache=False).logits
        targets = labels[:, asked + 1].flatten()
        total = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets, reduction="sum")
        items = num_items_in_batch if num_items_in_batch is not None else (targets != -100).sum()
        return total / torch.as_tensor(items).clamp(min=1)

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """As ever, but a training with evaluations in between gives the very adapter of one without: reading the
        rows draws random numbers, which would change the dropout of the steps after it."""
        with torch.random.fork_rng():
            return super().evaluate(*args, **kwargs)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """None is wanted: it names this machine's paths, and the version's manifest says more."""
