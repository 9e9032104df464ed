"""Real training on a toy base. TRL is imported once, by the tests that train in this process."""

import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.checkpoints import read_metrics
from tasks.config import TrainConfig
from tasks.training import Progress, train
from tests.tasks.test_children import alive, wait_for
from tests.tasks.toy import make_base, make_dataset
from turnout.errors import BadInput, TrainingFailed
from turnout.references import Base, Dataset, to_json

pytestmark = pytest.mark.e2e
CONFIG = TrainConfig(learning_rate=0.02, epochs=2, batch_size=8, lora_rank=8, lora_alpha=16, checkpoint_every_steps=4)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("training")
        patch.setenv("TURNOUT_CACHE", str(folder / "cache"))
        yield folder


@pytest.fixture(scope="module")
def base(home: Path) -> Base:
    return make_base(home / "toy")


@pytest.fixture(scope="module")
def dataset(home: Path, base: Base) -> Dataset:
    return make_dataset(home / "data", base)


@pytest.fixture(scope="module")
def uninterrupted(home: Path, base: Base, dataset: Dataset) -> Path:
    """The folder of a training in this process, evaluated each epoch."""
    from tasks.train import train_here

    folder = home / "uninterrupted"
    adapter = train_here(dataset, base, CONFIG.model_copy(update={"evaluate_each_epoch": True}), folder)
    (folder / "adapter.json").write_text(json.dumps(to_json(adapter)))
    return folder


def losses(folder: Path, key: str = "loss") -> list[float]:
    return [line[key] for line in read_metrics(folder) if key in line]


def test_it_learns_also_after_an_evaluation_in_between(uninterrupted: Path) -> None:
    curve, evaluations = losses(uninterrupted), losses(uninterrupted, "eval_loss")
    assert len(evaluations) == 2 and evaluations[1] < evaluations[0]
    assert sum(curve[-3:]) < 0.5 * sum(curve[:3])
    assert all(norm > 0 for norm in losses(uninterrupted, "grad_norm"))
    tokens = losses(uninterrupted, "tokens")
    assert tokens == sorted(tokens) and tokens[0] > 0


def test_the_adapter_is_two_files_free_of_this_machine(uninterrupted: Path, base: Base) -> None:
    folder = uninterrupted / "adapter"
    assert sorted(file.name for file in folder.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    text = (folder / "adapter_config.json").read_text()
    config = json.loads(text)
    assert config["base_model_name_or_path"] == base.id
    assert config["target_modules"] == sorted(config["target_modules"]) and len(config["target_modules"]) == 7
    assert str(uninterrupted.parent) not in text
    adapter = json.loads((uninterrupted / "adapter.json").read_text())
    assert adapter["total_params"] - adapter["trainable_params"] == base_parameters()
    assert adapter["steps"] == len(losses(uninterrupted)) and adapter["peak_memory_bytes"] > 0


def base_parameters() -> int:
    import math

    from tests.tasks.toy import shapes

    return sum(math.prod(shape) for shape in shapes(259).values())


@pytest.mark.slow
def test_killed_it_dies_and_goes_on_where_it_was(home: Path, base: Base, dataset: Dataset, uninterrupted: Path) -> None:
    folder = home / "killed"
    code = (
        "import sys, json; from pathlib import Path; from tasks.training import train; "
        "from tasks.config import TrainConfig; from turnout.references import Base, Dataset, from_json; "
        "job = json.loads(sys.argv[1]); "
        "train(from_json(Dataset, job['dataset']), from_json(Base, job['base']), TrainConfig(**job['config']),"
        " run_folder=Path(job['folder']))"
    )
    config = CONFIG.model_copy(update={"checkpoint_every_steps": 2})
    job = {"dataset": to_json(dataset), "base": to_json(base), "folder": str(folder)}
    job["config"] = config.model_dump(mode="json")
    parent = subprocess.Popen([sys.executable, "-c", code, json.dumps(job)], cwd=Path(__file__).parents[2])
    child = 0
    try:
        wait_for(lambda: len(losses(folder)) >= 5 or parent.poll() is not None, seconds=200)
        assert parent.poll() is None
        child = children_of(parent.pid)[0]
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        wait_for(lambda: not alive(child), seconds=10)
    finally:
        parent.kill()
    before = len(losses(folder))

    sent: list[dict[str, Any]] = []
    seen: list[Progress] = []
    adapter = train(dataset, base, config, run_folder=folder, on_metrics=sent.append, progress=seen.append)
    # In bf16 two trainings alike differ by thousandths on some CPUs, killed or not.
    assert losses(folder) == pytest.approx(losses(uninterrupted), rel=0.01)
    assert losses(folder, "tokens") == losses(uninterrupted, "tokens")
    # What was logged before the kill comes again: nobody knows whether it had been forwarded by then.
    assert {line["step"] for line in sent} == set(range(1, adapter.steps + 1)) and before < adapter.steps
    assert (seen[-1].step, seen[-1].total) == (adapter.steps, adapter.steps)

    sent.clear()
    assert train(dataset, base, config, run_folder=folder, on_metrics=sent.append) == adapter and not sent


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_zero_gradients_stop_it(home: Path, dataset: Dataset) -> None:
    from tasks.train import train_here

    blind = make_base(home / "blind", model_norm_weight=0.0)  # its logits are zero whatever the adapter does
    with pytest.raises(TrainingFailed, match="step 1: the gradients of all LoRA weights are zero"):
        train_here(dataset, blind, CONFIG, home / "zero")


def test_a_nan_loss_stops_it(home: Path, dataset: Dataset) -> None:
    from tasks.train import train_here

    broken = make_base(home / "broken", model_norm_weight=float("nan"))
    with pytest.raises(TrainingFailed, match="step 1: the loss is nan"):
        train_here(dataset, broken, CONFIG, home / "nan")


def test_an_adapter_that_does_not_move_is_refused(home: Path, base: Base, dataset: Dataset) -> None:
    from tasks.train import train_here

    config = CONFIG.model_copy(update={"learning_rate": 1e-300, "max_steps": 1})
    with pytest.raises(TrainingFailed, match="did not move"):
        train_here(dataset, base, config, home / "unmoved")
    assert not (home / "unmoved" / "adapter").exists()


def test_a_target_that_matches_nothing_is_refused_with_a_near_one(home: Path, base: Base, dataset: Dataset) -> None:
    from tasks.train import train_here

    config = CONFIG.model_copy(update={"target_modules": ("q_proj", "v_prjo")})
    with pytest.raises(BadInput, match="no linear layer called 'v_prjo'") as caught:
        train_here(dataset, base, config, home / "targets")
    assert "Did you mean v_proj?" in caught.value.next_step


def test_packed_conversations_do_not_see_each_other(home: Path, base: Base, dataset: Dataset) -> None:
    import torch

    from tasks.quantise import load_nf4
    from tasks.train import make_trainer

    config = CONFIG.model_copy(update={"packing": True, "packed_length": 128, "batch_size": 2, "lora_dropout": 0.0})
    trainer = make_trainer(
        load_nf4(base.path, True), ["q_proj", "down_proj"], dataset, base, config, home / "packed", 0
    )
    batch = next(iter(trainer.get_train_dataloader()))
    ends = batch.pop("cu_seq_lens_q").tolist()
    assert len(ends) > 4
    inputs = {name: batch[name] for name in ("input_ids", "position_ids")}
    with torch.no_grad():
        together = trainer.model.eval()(**inputs, use_cache=False).logits[0]
        for first, last in itertools.pairwise(ends):
            alone = trainer.model(input_ids=batch["input_ids"][:, first:last], use_cache=False).logits[0]
            # In bf16 single logits differ by their last bits; those of rows that see each other differ by their size.
            assert (together[first:last] - alone).abs().mean() < 0.02 * alone.abs().mean()
    assert train_steps(trainer) > 0


def train_steps(trainer: Any) -> int:
    trainer.args.max_steps = 2
    trainer.train()
    return int(trainer.state.global_step)


def test_scores_are_the_losses_and_the_parity_twin_has_the_same(
    home: Path, base: Base, dataset: Dataset, uninterrupted: Path
) -> None:
    import torch

    from data.rows import validation_sample
    from tasks.bases import ensure_parity_base, parity_folder
    from tasks.config import ScoreConfig
    from tasks.losses import row_losses
    from tasks.quantise import load_nf4
    from tasks.score import score_here

    adapters = {"candidate": str(uninterrupted / "adapter"), "champion": str(uninterrupted / "adapter")}
    config = ScoreConfig(samples=2, sample_tokens=8, batch_size=3)
    how = {"double_quantisation": True, "write_parity": True}
    scores = score_here(dataset, base, adapters, config, home / "score", how)
    assert scores.champion == scores.candidate and scores.candidate.nats < 0.5 * scores.base.nats
    assert scores.candidate.tokens == dataset.validation_tokens or scores.candidate.tokens > 0
    assert len(scores.samples) == 2 and scores.samples[0].candidate.startswith("ok")

    # The same numbers by another way: on NF4 itself, one row at a time, with transformers' own loss.
    rows = validation_sample(dataset, config.max_rows)
    model = load_nf4(base.path, True)
    total = 0.0
    with torch.no_grad():
        for row in rows:
            labels = [token if mask else -100 for token, mask in zip(row.input_ids, row.loss_mask, strict=True)]
            loss = model(input_ids=torch.tensor([row.input_ids]), labels=torch.tensor([labels])).loss
            total += float(loss) * sum(row.loss_mask)
    assert total / scores.base.tokens == pytest.approx(scores.base.nats, rel=1e-4)
    assert sum(row_losses(model, rows, 4)) == pytest.approx(total, rel=1e-4)

    kept = json.loads((home / "score" / "rows.json").read_text())
    assert sum(row["nll_sum"] for row in kept["base"]) == pytest.approx(total, rel=1e-4)
    assert set(kept) == {"base", "candidate", "champion", "base_original", "candidate_original"}

    twin = ensure_parity_base(base)
    assert Path(twin.path) == parity_folder(base) and twin.name == f"{base.name}-nf4"
    assert twin.parity_of == base.sha256 and twin.template_sha256 == base.template_sha256
