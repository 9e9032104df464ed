"""Sizes of weights and adapters, against published totals, files and engines' logs."""

import pytest

from serving.capacity.weights import PRECISIONS, lora_parameters, parameters, precision_name, weights_bytes
from tests.serving.capacity.models import config, shapes
from turnout.errors import BadInput

TOTALS = {
    "qwen2.5-7b": 7_615_616_512,
    "smollm2-135m": 134_515_008,
    "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-1b": 999_885_952,
    "phi-3-mini-4k": 3_821_079_552,
    "qwen3-0.6b": 596_049_920,
}


@pytest.mark.parametrize("name", TOTALS)
def test_parameters_of_the_common_families(name: str) -> None:
    assert parameters(shapes(name)) == TOTALS[name]
    assert weights_bytes(shapes(name), "bf16") == 2 * TOTALS[name]


def test_nf4_takes_what_the_article_measured() -> None:
    # bitsandbytes' defaults, no double quantisation: "4bit 모델 GPU 메모리 5.9GB" for Qwen2.5-7B
    assert weights_bytes(shapes("qwen2.5-7b"), "nf4_single") / 1e9 == pytest.approx(5.9, abs=0.05)
    assert PRECISIONS["nf4"].bits == pytest.approx(4.127, abs=0.0005)


def test_awq_and_bf16_take_what_vllm_logged() -> None:
    # vllm#13882, Qwen2.5-7B AWQ: "model weights take 5.20GiB"; vllm#15815, Qwen2.5-32B on two: "30.71GiB"
    assert weights_bytes(shapes("qwen2.5-7b"), "awq") / 2**30 == pytest.approx(5.20, abs=0.02)
    assert weights_bytes(shapes("qwen2.5-32b"), "bf16") / 2 / 2**30 == pytest.approx(30.71, rel=0.01)
    assert weights_bytes(shapes("llama-3-8b"), "bf16") / 2**30 == pytest.approx(14.96, abs=0.03)


@pytest.mark.parametrize(("kind", "megabytes"), [("Q8_0", 144.8), ("Q5_K_M", 112.1), ("Q4_K_M", 105.5), ("Q4_0", 91.7)])
def test_gguf_sizes_are_those_of_files_that_llama_cpp_wrote(kind: str, megabytes: float) -> None:
    # SmolLM2-135M; a file's tokenizer takes 1.8 MB
    assert weights_bytes(shapes("smollm2-135m"), kind) / 1e6 + 1.8 == pytest.approx(megabytes, abs=0.1)


@pytest.mark.parametrize(
    ("kind", "article"), [("bf16", 13.5), ("Q8_0", 7.2), ("Q5_K_M", 5.1), ("Q4_K_M", 4.0), ("Q4_0", 3.7)]
)
def test_the_article_s_sizes_of_a_llama_7b(kind: str, article: float) -> None:
    assert weights_bytes(shapes("llama-2-7b"), kind) / 1e9 == pytest.approx(article, rel=0.07)


def test_the_ladder_falls() -> None:
    sizes = [weights_bytes(shapes("llama-3-8b"), kind) for kind in ("fp32", "bf16", "Q8_0", "Q5_K_M", "Q4_K_M", "Q4_0")]
    assert sizes == sorted(sizes, reverse=True)


def test_an_adapter_takes_rank_times_both_sides() -> None:
    model = shapes("qwen2.5-7b")
    assert lora_parameters(model, 16, ["q_proj", "v_proj"]) == 5_046_272
    # the article's count holds the adapter: 7,620,662,784, of which 0.066 % train
    assert parameters(model) + 5_046_272 == 7_620_662_784
    assert round(100 * 5_046_272 / 7_620_662_784, 3) == 0.066
    assert lora_parameters(model, 32, ["all-linear"]) == 2 * lora_parameters(model, 16, ["all-linear"])
    with pytest.raises(BadInput, match=r"no linear layer qkv") as refused:
        lora_parameters(model, 16, ["q_proj", "qkv"])
    assert "q_proj" in refused.value.next_step


def test_names_of_precisions() -> None:
    assert [precision_name(name) for name in ("FP16", "bfloat16", "q4_k_m", "int4")] == [
        "bf16",
        "bf16",
        "Q4_K_M",
        "awq",
    ]
    with pytest.raises(BadInput, match="'int2' is not known"):
        precision_name("int2")


def test_a_model_of_another_family_has_no_closed_form() -> None:
    from serving.capacity.shapes import family_shapes

    assert family_shapes(config("deepseek-v3")) is None
