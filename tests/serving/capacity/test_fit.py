"""Users of a GPU, against what vLLM said at its start, and how figures move."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.capacity.attention import BLOCK
from serving.capacity.fit import Demand, fit, kv_cache_bytes, users, ways_to_fit
from serving.capacity.gpus import KNOWN, Gpu, find_gpus, generation
from serving.capacity.weights import weights_bytes
from tests.serving.capacity.models import attention, shapes
from turnout.errors import BadInput


def demand(name: str, context: int = 4096, **more: int) -> Demand:
    size = weights_bytes(shapes(name), "bf16")
    return Demand(attention(name), 2.0, size, 0, context, more.pop("mean_tokens", context), **more)


def gpu(name: str) -> Gpu:
    return find_gpus(name)[0]


@pytest.mark.parametrize(
    ("model", "on", "parallel", "gibibytes"),
    [
        ("llama-3-8b", "H100", 1, 53.29),  # pull 10511
        ("qwen2.5-32b", "L40S", 2, 7.71),  # vllm#15815
        ("qwen2.5-7b", "A40", 1, 27e9 / 2**30),  # the article: 27 GB of KV cache
        ("qwen2.5-7b", "H200", 1, 110.09),  # measured with vLLM 0.26, 2026-12-01
    ],
)
def test_the_kv_cache_is_what_vllm_reserved(model: str, on: str, parallel: int, gibibytes: float) -> None:
    found = kv_cache_bytes(gpu(on), demand(model, parallel=parallel)) / 2**30
    assert found == pytest.approx(gibibytes, abs=1.5)


@pytest.mark.parametrize(
    ("model", "parallel", "blocks", "gibibytes"),
    [
        ("llama-3-8b", 1, 2356, 4.60),
        ("qwen2.5-32b", 2, 3947, 7.71),
        ("qwen2.5-1.5b", 1, 5519, 2.36),
        ("qwen2.5-7b", 1, 128_836, 110.09),
    ],
)
def test_blocks_are_of_the_size_that_vllm_counts_in(model: str, parallel: int, blocks: int, gibibytes: float) -> None:
    """Its logs give both: "# CUDA blocks: 2356" and "memory reserved for KV Cache is 4.60GiB"."""
    block = attention(model).bytes_per_token(2, parallel) * BLOCK
    assert blocks * block / 2**30 == pytest.approx(gibibytes, abs=0.01)


@pytest.mark.parametrize(("mean", "waste"), [(1638, 0.6), (1229, 0.7)])
def test_the_article_s_waste_of_static_reservation(mean: int, waste: float) -> None:
    """60 to 70 % is wasted where 4,096 tokens are reserved and 1,638 to 1,229 used: 2 to 4 times fewer users."""
    row = fit(gpu("A40"), demand("qwen2.5-7b", 4096, mean_tokens=mean))
    assert row["static"]["waste_share"] == pytest.approx(waste, abs=0.001)
    assert row["paged"]["waste_share"] < 0.01
    assert 2 <= row["paged"]["users"] / row["static"]["users"] <= 4
    assert row["static"]["users"] == row["max_concurrent"]


def test_what_does_not_fit_holds_nobody_and_says_what_would() -> None:
    wanted = demand("llama-3-8b", 8192)
    row = fit(gpu("T4"), wanted)
    assert (row["max_concurrent"], row["fits"], row["kv_cache_bytes"]) == (0, False, 0) and row["short_bytes"] > 2**30
    sizes = {name: weights_bytes(shapes("llama-3-8b"), name) for name in ("bf16", "fp8", "int8", "awq", "nf4")}
    ways = ways_to_fit(gpu("T4"), wanted, sizes, 1)
    assert "--precision awq" in ways and "--tensor-parallel 2" in ways
    for way in ways:
        smaller = replace(wanted, parallel=2) if "parallel" in way else replace(wanted, weights_bytes=sizes[way[12:]])
        assert users(gpu("T4"), smaller, 8192) >= 1


@given(st.integers(1, 131072), st.integers(1, 131072), st.sampled_from(KNOWN))
def test_users_fall_with_the_context_and_rise_with_fewer_bits(a: int, b: int, on: Gpu) -> None:
    model = demand("llama-3-8b")
    short, long = sorted((a, b))
    assert users(on, model, short) >= users(on, model, long)
    assert users(on, replace(model, value_bytes=1.0), long) >= users(on, model, long)
    assert users(on, replace(model, utilization=0.5), long) <= users(on, model, long)


def test_gpus_are_found_by_what_people_and_drivers_call_them() -> None:
    assert find_gpus("NVIDIA A100-SXM4-80GB") == find_gpus("a100-80gb")
    assert [each.name for each in find_gpus("A100")] == ["A100-40GB", "A100-80GB"]
    assert [find_gpus(name)[0].name for name in ("Tesla T4", "rtx 4090", "H100", "NVIDIA H100 80GB HBM3")] == [
        *("T4", "RTX-4090", "H100", "H100")
    ]
    with pytest.raises(BadInput, match="'H9000' is not known") as refused:
        find_gpus("H9000")
    assert "A40" in refused.value.next_step
    for unknown in ("", "--", "gb"):
        with pytest.raises(BadInput):
            find_gpus(unknown)
    for each in KNOWN:
        assert each.capability.startswith("gfx") or generation(each.capability) == each.generation
