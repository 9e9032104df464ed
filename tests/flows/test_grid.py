"""What --sweep takes, and what it refuses before anything starts."""

import pytest

from flows.grid import combinations
from tests.conftest import Turnout
from turnout.errors import BadInput, PresetError


def test_all_combinations_are_made_in_order() -> None:
    found = combinations("tiny-cpu", ["train.epochs=3"], ["train.learning_rate=2e-4,5e-4", "train.lora_rank=8, 16"])
    assert [each.overrides for each in found] == [
        ("train.learning_rate=2e-4", "train.lora_rank=8"),
        ("train.learning_rate=2e-4", "train.lora_rank=16"),
        ("train.learning_rate=5e-4", "train.lora_rank=8"),
        ("train.learning_rate=5e-4", "train.lora_rank=16"),
    ]
    last = found[-1]
    assert (last.number, last.count, last.train.epochs) == (4, 4, 3)
    assert last.settings == {"train.learning_rate": 0.0005, "train.lora_rank": 16}
    assert (last.train.learning_rate, last.train.lora_rank) == (0.0005, 16)


def test_commas_in_brackets_belong_to_the_value() -> None:
    found = combinations("tiny-cpu", [], ["train.target_modules=[q_proj, v_proj],all-linear"])
    assert [each.settings["train.target_modules"] for each in found] == [["q_proj", "v_proj"], "all-linear"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["train.lora_rank=8,16", "train.lora_rank=32"], "train.lora_rank is given twice"),
        (["train.lora_rank=8,08.0"], "train the same adapter"),
        (["train.checkpoint_every_steps=5,10"], "train the same adapter"),
        (["train.packed_length=1024,2048"], "train the same adapter"),
        (["train.epochs=1,2", "train.max_steps=8,9"], "train the same adapter"),
        (["data.max_length=128,256"], "only settings of train can be swept"),
        (["train={seed: 1}"], "only settings of train"),
        (["train.lora_rank"], "is not of the form train.key=A,B"),
        (["train.lora_rank="], "its values cannot be read"),
        (["train.lora_rank=8,,16"], "its values cannot be read"),
        (["train.lora_rank=[8"], "its values cannot be read"),
        (["train.lora_rank=" + "[" * 3000], "its values cannot be read"),
        (["train.seed=" + ",".join(map(str, range(65)))], "65 combinations, and 64 are the most"),
        (["train.seed=" + ",".join(map(str, range(9))), "train.epochs=1,2,3,4,5,6,7,8"], "72 combinations"),
    ],
)
def test_a_wrong_option_is_refused(options: list[str], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        combinations("tiny-cpu", [], options)
    assert message in caught.value.message and caught.value.next_step


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("train.lora_rnak=8,16", "unknown key 'train.lora_rnak' (did you mean 'lora_rank'?)"),
        ("train.epochs=1,0", "train.epochs: Input should be greater than 0 (got 0)"),
        ("train.lora_rank=8,4096", "cannot be served"),
    ],
)
def test_every_value_is_checked_as_a_presets(option: str, message: str) -> None:
    with pytest.raises(PresetError) as caught:
        combinations("tiny-cpu", [], [option])
    assert message in caught.value.message


def test_the_command_refuses_before_it_starts_anything(turnout: Turnout) -> None:
    outcome = turnout("run", "--json", "--sweep", "train.lora_rank=8,16", "--sweep", "train.lora_rank=32")
    assert outcome.code == 2, outcome
    assert "given twice" in outcome.json["error"]["message"] and not turnout.home.root.exists()
