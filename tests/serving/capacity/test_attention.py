"""The KV cache of every kind of attention, and of what is none."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.capacity.attention import Layer, read_attention
from serving.capacity.keys import read_config
from serving.capacity.windows import STATE
from tests.serving.capacity.models import attention, config
from turnout.errors import BadInput


@pytest.mark.parametrize(("context", "about"), [(4096, 224), (32768, 1.8 * 1024), (131072, 7.2 * 1024)])
def test_the_article_s_rows_of_qwen2_5_7b(context: int, about: float) -> None:
    found = attention("qwen2.5-7b").bytes_per_request(context, 2)
    assert found == 2 * 28 * 4 * 128 * context * 2
    assert found / 2**20 == pytest.approx(about, rel=0.05)  # its MB and GB, rounded


def test_fifty_users_of_32k_take_about_90_gb() -> None:
    assert 50 * attention("qwen2.5-7b").bytes_per_request(32768, 2) / 1e9 == pytest.approx(90, rel=0.05)


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("llama-2-7b", 2 * 32 * 32 * 128 * 2),
        ("llama-3-8b", 2 * 32 * 8 * 128 * 2),
        ("mistral-7b", 2 * 32 * 8 * 128 * 2),
        ("gemma-2-9b", 2 * 42 * 8 * 256 * 2),
        ("gemma-3-1b", 2 * 26 * 1 * 256 * 2),
        ("deepseek-v2", 60 * (512 + 64) * 2),
        ("deepseek-v3", 61 * (512 + 64) * 2),
        ("phi-3-mini-4k", 2 * 32 * 32 * 96 * 2),
        ("gpt2", 2 * 12 * 12 * 64 * 2),
        ("falcon-7b", 2 * 32 * 1 * 64 * 2),
        ("qwen3-0.6b", 2 * 28 * 8 * 128 * 2),
        ("gpt-oss-20b", 2 * 24 * 8 * 64 * 2),
        ("mistral-small-3.1-24b", 2 * 40 * 8 * 128 * 2),
        ("smollm2-135m", 2 * 30 * 3 * 64 * 2),
    ],
)
def test_bytes_a_token_follow_from_the_config(name: str, token: int) -> None:
    assert attention(name).bytes_per_token(2) == token
    assert not any("not an architecture" in note for note in attention(name).notes)


@pytest.mark.parametrize(
    ("name", "full", "sliding", "window"),
    [
        ("mistral-7b", 0, 32, 4096),
        ("gemma-2-9b", 21, 21, 4096),
        ("gemma-3-1b", 4, 22, 512),
        ("gpt-oss-20b", 12, 12, 128),
    ],
)
def test_a_window_stops_growing(name: str, full: int, sliding: int, window: int) -> None:
    found = attention(name)
    spans = [layer.span for layer in found.layers]
    assert spans.count("full") == full and spans.count(window) == sliding
    each = found.bytes_per_token(2) / len(spans)
    assert found.bytes_per_request(20_000, 2) == each * (full * 20_000 + sliding * window)


def test_windows_that_are_switched_off_or_begin_at_a_layer() -> None:
    assert {layer.span for layer in attention("qwen2.5-7b").layers} == {"full"}
    partly = attention("qwen2.5-7b", use_sliding_window=True, max_window_layers=20, sliding_window=1024)
    assert [layer.span for layer in partly.layers] == ["full"] * 20 + [1024] * 8


def test_a_hybrid_counts_its_attention_layers_and_says_so() -> None:
    found = attention("qwen3-next-80b")
    assert [layer.span for layer in found.layers].count(STATE) == 36
    assert found.bytes_per_token(2) == 2 * 12 * 2 * 256 * 2
    assert "36 of 48 layers keep a state" in found.notes[0]


def test_an_unknown_architecture_is_taken_by_its_keys_with_a_note() -> None:
    found = attention("llama-3-8b", model_type="nova", architectures=["NovaForCausalLM"])
    assert found.bytes_per_token(2) == attention("llama-3-8b").bytes_per_token(2)
    assert "NovaForCausalLM (model_type nova) is not an architecture that is known" in found.notes[0]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            {"architectures": ["NovaForCausalLM"]},
            r"NovaForCausalLM .* lacks num_hidden_layers or n_layer, num_attention",
        ),
        (config("mamba-130m"), r"MambaForCausalLM \(mamba\) cannot be computed: every layer keeps a state"),
        (config("t5-small"), "no decoder-only language model"),
        (config("llama-3-8b", num_hidden_layers=-2), "num_hidden_layers is -2, not a whole number above 0"),
        (config("llama-3-8b", num_attention_heads="many"), "num_attention_heads is 'many'"),
        (config("gpt-oss-20b", layer_types=["full_attention"]), "layer_types has 1 entries for 24 layers"),
        (config("llama-3-8b", layer_types=["linear_attention"] * 32), "has no layer with a KV cache"),
        (config("llama-3-8b", num_key_value_heads=5), "32 attention heads cannot share 5 KV heads"),
        (config("llama-3-8b", mamba_d_state=64), "mamba_d_state tells of layers with a state"),
        ({}, "no architecture named"),
    ],
)
def test_what_cannot_be_computed_is_named(values: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        read_attention(values)


def test_what_is_no_config(tmp_path: Path) -> None:
    for content, says in (("{", "is no JSON"), ("[]", "holds no JSON object"), ('{"a": ' * 100_000, "is no JSON")):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(BadInput, match=says):
            read_config(tmp_path / "config.json")
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        read_config(tmp_path / "elsewhere.json")


def test_kv_heads_are_shared_out_and_the_last_one_is_copied() -> None:
    found = attention("qwen2.5-7b")
    assert [found.bytes_per_token(2, parallel) for parallel in (1, 2, 4, 7)] == [57344, 28672, 14336, 14336]
    assert attention("deepseek-v3").bytes_per_token(2, 8) == attention("deepseek-v3").bytes_per_token(2)
    with pytest.raises(BadInput, match="--tensor-parallel 8 does not divide the 28 attention heads"):
        found.check_parallel(8)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.sampled_from(["llama-3-8b", "gemma-3-1b", "deepseek-v3"]))
def test_more_tokens_never_take_less(a: int, b: int, name: str) -> None:
    found = attention(name)
    small, large = sorted((a, b))
    assert found.bytes_per_request(small, 2) <= found.bytes_per_request(large, 2)
    assert found.bytes_per_request(small, 2) <= found.bytes_per_request(small, 2, block=16)


@given(st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 10**5))
def test_half_the_kv_heads_take_half_and_a_window_at_most_the_whole(heads: int, context: int) -> None:
    whole, half = (attention("llama-2-7b", num_key_value_heads=each) for each in (2 * heads, heads))
    assert whole.bytes_per_request(context, 2) == 2 * half.bytes_per_request(context, 2)
    assert Layer(heads, 256, 512).tokens(context) <= Layer(heads, 256, "full").tokens(context)
