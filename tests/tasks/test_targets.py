import pytest

from tasks.targets import check_targets
from turnout.errors import BadInput

LAYERS = ["model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj", "model.layers.0.mlp.up_proj"]


def test_all_linear_means_every_kind_of_layer() -> None:
    assert check_targets("all-linear", LAYERS, "toy") == ["q_proj", "up_proj", "v_proj"]


def test_named_targets_stay_as_they_are() -> None:
    assert check_targets(("v_proj", "self_attn.q_proj"), LAYERS, "toy") == ["v_proj", "self_attn.q_proj"]


def test_a_target_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(BadInput) as caught:
        check_targets(("q_porj",), LAYERS, "toy")
    assert "no linear layer called 'q_porj'" in caught.value.message
    assert "Did you mean q_proj?" in caught.value.next_step


def test_a_name_that_only_ends_alike_is_none() -> None:
    with pytest.raises(BadInput):
        check_targets(("proj",), LAYERS, "toy")
