"""LoRA products by adapter against the plain formula."""

import pytest
import torch

pytestmark = pytest.mark.e2e  # importing vLLM takes long

RANK, WIDTH, SLOTS = 4, 12, 3
SLICES = (8, 6)


@pytest.mark.parametrize("slots", [[0] * 5, [-1] * 5, [2, 0, -1, 2, 0], [-1, 1], [1]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_each_token_gets_its_own_adapter_and_none_without_one(slots: list[int], dtype: torch.dtype) -> None:
    from vllm.lora.layers import LoRAMapping

    from serving.vllm_lora import GroupedPunicaWrapper

    torch.manual_seed(1)
    wrapper = GroupedPunicaWrapper(64, 16, torch.device("cpu"))
    ids = tuple(slot + 1 if slot >= 0 else 0 for slot in slots)
    wrapper.update_metadata(LoRAMapping(ids, ids, is_prefill=True), [1, 2, 3], SLOTS, 100)
    x = torch.randn(len(slots), WIDTH).to(dtype)
    a = tuple(torch.randn(SLOTS, 1, RANK, WIDTH).to(dtype) for _ in SLICES)
    b = tuple(torch.randn(SLOTS, 1, size, RANK).to(dtype) for size in SLICES)
    before = torch.randn(len(slots), sum(SLICES)).to(dtype)

    y = before.clone()
    wrapper.add_lora_linear(y, x, a, b, 0.5, SLICES)

    for token, slot in enumerate(slots):
        if slot < 0:
            assert torch.equal(y[token], before[token])
            continue
        parts = [0.5 * down[slot, 0].float() @ x[token].float() for down in a]
        added = torch.cat([up[slot, 0].float() @ part for up, part in zip(b, parts, strict=True)])
        torch.testing.assert_close(y[token].float(), before[token].float() + added, rtol=0.05, atol=0.15)
