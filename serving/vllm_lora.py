"""LoRA on vLLM's CPU engine with one matrix product an adapter; imported by the engine's process alone.

vLLM's own CPU code (0.32) copies the adapter's matrices once for every token of a batch and multiplies each token by
its copy. It also looks up index -1, which means "no adapter", as the last slot: a request to the base that shares a
batch with an adapter's gets what is in that slot.
"""

from collections.abc import Sequence
from typing import Any

import torch
from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU

Groups = Sequence[tuple[int, torch.Tensor | None]]
"""Adapter slots, and the positions of their tokens in the batch; None where all tokens are of that slot."""


class GroupedPunicaWrapper(PunicaWrapperCPU):
    """vLLM's CPU wrapper, whose products go by adapter instead of by token."""

    _groups: Groups = ()

    def update_metadata(self, *args: Any, **kwargs: Any) -> None:
        super().update_metadata(*args, **kwargs)
        self._groups = group(self.token_lora_indices)

    def _apply_shrink(self, y: torch.Tensor, x: torch.Tensor, w_t_all: torch.Tensor, scale: float) -> None:
        """y = scale · x Aᵀ; y is [tokens, rank] in float32, x [tokens, width], w_t_all [slots, 1, rank, width]."""
        y = y.view(-1, y.shape[-1])
        for slot, tokens in self._groups:
            product = (x if tokens is None else x[tokens]).to(y.dtype) @ _matrix(w_t_all, slot, y.dtype).T
            product *= scale
            if tokens is None:
                y[:, : product.shape[1]] = product
            else:
                y[tokens, : product.shape[1]] = product

    def _apply_expand(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        w_t_all: torch.Tensor,
        y_offset: int,
        y_slice_size: int,
        add_inputs: bool = True,
    ) -> None:
        """y[:, a slice] += x Bᵀ; y is [tokens, width], x [tokens, rank] in float32, w_t_all [slots, 1, width, rank]."""
        part = y[:, y_offset : y_offset + y_slice_size]
        for slot, tokens in self._groups:
            matrix = _matrix(w_t_all, slot, y.dtype)
            if tokens is None:
                product = x.to(y.dtype) @ matrix.T
                part.add_(product) if add_inputs else part.copy_(product)
            else:
                product = x[tokens].to(y.dtype) @ matrix.T
                part[tokens] = part[tokens] + product if add_inputs else product


def group(slots: torch.Tensor) -> Groups:
    """The tokens of each slot; those of slot -1, which have no adapter, are in no group."""
    found = slots.unique().tolist()
    if len(found) == 1:
        return [(found[0], None)] if found[0] >= 0 else []
    return [(slot, (slots == slot).nonzero().squeeze(1)) for slot in found if slot >= 0]


def _matrix(stacked: torch.Tensor, slot: int, dtype: torch.dtype) -> torch.Tensor:
    matrix = stacked[slot]
    return (matrix.squeeze(0) if matrix.dim() == 3 else matrix).to(dtype)
