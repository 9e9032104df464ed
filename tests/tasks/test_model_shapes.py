"""Models are described from their configs, with transformers where the family is none of the common ones."""

import pytest

from serving.capacity.attention import Attention
from serving.capacity.weights import parameters
from tasks.model_shapes import Shapes, describe_model
from tests.serving.capacity.models import CONFIGS, config, shapes

BEYOND = {
    "deepseek-v2": 235_741_434_880,
    "deepseek-v3": 671_026_404_352,
    "falcon-7b": 6_921_720_704,
    "gemma-3-4b": 4_300_079_472,
    "gpt-oss-20b": 20_914_757_184,
    "gpt2": 124_439_808,
    "mistral-small-3.1-24b": 24_011_361_280,
}


def described(name: str) -> tuple[Attention, Shapes]:
    attention, found = describe_model(CONFIGS / f"{name}.json", lambda text: None)
    assert found is not None
    return attention, found


@pytest.mark.parametrize("name", BEYOND)
def test_other_architectures_are_built_without_their_weights(name: str) -> None:
    assert parameters(described(name)[1]) == BEYOND[name]


def test_defaults_that_a_config_leaves_out_come_from_its_class() -> None:
    attention, _ = described("gemma-3-4b")
    assert attention.bytes_per_token(2) == 2 * 34 * 4 * 256 * 2
    assert [layer.span for layer in attention.layers].count(1024) == 29


@pytest.mark.parametrize(
    "name", ["qwen2.5-7b", "llama-3-8b", "mixtral-8x7b", "gemma-2-9b", "gemma-3-1b", "phi-3-mini-4k", "qwen3-0.6b"]
)
def test_computed_tensors_are_those_that_transformers_makes(name: str) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config(name)))
    assert parameters(shapes(name)) == sum(tensor.numel() for tensor in model.parameters())
    if name != "mixtral-8x7b":  # whose experts transformers keeps in one tensor
        assert shapes(name) == {key: tuple(tensor.shape) for key, tensor in model.named_parameters()}
