from pathlib import Path

import pytest

from serving.capacity.shapes import file_shapes
from tasks.config import TrainConfig
from tasks.memory import estimate, require_memory
from tests.tasks.toy import make_base, shapes
from turnout.errors import ResourceShort


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_base(tmp_path_factory.mktemp("memory") / "toy").path


def test_shapes_are_read_from_the_file_s_header(base: str) -> None:
    assert file_shapes(Path(base))[0] == shapes(259)


def test_more_tokens_take_more_and_checkpointing_less(base: str) -> None:
    small, large = (estimate(base, TrainConfig(batch_size=size), 256, "cpu") for size in (1, 8))
    assert large.activations == 8 * small.activations and large.weights == small.weights
    less = estimate(base, TrainConfig(batch_size=8, gradient_checkpointing=True), 256, "cpu")
    assert less.activations < large.activations
    assert (
        estimate(base, TrainConfig(lora_rank=32), 256, "cpu").adapter
        == 2 * estimate(base, TrainConfig(), 256, "cpu").adapter
    )
    assert estimate(base, TrainConfig(), 256, "gpu").adapter < estimate(base, TrainConfig(), 256, "cpu").adapter


def test_the_adapter_s_part_follows_the_targets(base: str) -> None:
    # q (64, 64) and v (32, 64) in two layers, rank 16, four copies in fp32
    config = TrainConfig(target_modules=("q_proj", "v_proj"))
    assert estimate(base, config, 256, "cpu").adapter == 2 * 16 * (128 + 96) * 4 * 4


def test_what_cannot_fit_is_refused_with_the_numbers(base: str) -> None:
    config = TrainConfig(memory_budget_gb=2, batch_size=512)
    with pytest.raises(
        ResourceShort, match=r"needs about \d+\.\d GB .*2\.0 GB are allowed by train.memory_budget_gb"
    ) as e:
        require_memory(base, config, 4096)
    assert "train.gradient_checkpointing" in e.value.next_step and "train.batch_size (512)" in e.value.next_step
    with pytest.raises(ResourceShort, match="free on the"):
        require_memory(base, TrainConfig(batch_size=10**6), 4096)
    assert require_memory(base, TrainConfig(), 64).total < 2e9
