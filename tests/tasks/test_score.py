"""Scoring for real, on a toy base with adapters that nobody trained."""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from data.config import DataConfig
from data.prepare import prepare
from data.rows import unseen_sample, validation_sample
from tasks.comparing import score as compare
from tasks.config import ScoreConfig, TrainConfig
from tasks.score import score_here
from tasks.scored_rows import read_rows
from tasks.scoring import Champion, score
from tests.tasks.toy import make_base, make_dataset
from turnout.references import Adapter, Base, Dataset, Scores

pytestmark = pytest.mark.e2e
CONFIG = ScoreConfig(samples=0, batch_size=8)


@dataclass(frozen=True)
class Toy:
    """A base, rows, two adapters of it by name, and a folder to work in."""

    folder: Path
    base: Base
    dataset: Dataset
    adapters: dict[str, str]

    @property
    def candidate(self) -> Adapter:
        path = self.adapters["candidate"]
        return Adapter(path, "a", 1, 4, 8, 0.0, (), self.base.sha256, "t", 1, 2, 1.0, 1, 1.0, "")

    def score(self, name: str, **how: Any) -> Scores:
        how = {"double_quantisation": True, "write_parity": False} | how
        return score_here(self.dataset, self.base, self.adapters, CONFIG, self.folder / name, how)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    folder = tmp_path_factory.mktemp("scoring")
    base = make_base(folder / "toy")
    adapters = {name: make_adapter(base, folder / name, seed) for seed, name in enumerate(("candidate", "champion"))}
    return Toy(folder, base, make_dataset(folder / "rows", base), adapters)


def make_adapter(base: Base, folder: Path, seed: int) -> str:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    config = LoraConfig(r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    get_peft_model(AutoModelForCausalLM.from_pretrained(base.path), config).save_pretrained(folder)
    return str(folder)


def own_rows(toy: Toy, fraction: float) -> Dataset:
    """More rows of the same kind, with another share of them held back."""
    source = toy.folder / "more.jsonl"
    lines = [{"instruction": f"n{number}", "output": "ok " * (1 + number % 3)} for number in range(30, 90)]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    config = DataConfig(path=str(source), max_length=128, validation_fraction=fraction)
    return prepare(config, toy.base, toy.folder / f"own-{fraction}")


def test_both_are_measured_on_the_champions_rows_that_the_candidate_never_saw(toy: Toy) -> None:
    own = own_rows(toy, 0.5)
    scores = toy.score("own", own=own)
    expected, left_out = unseen_sample(own, CONFIG.max_rows, trained_on=toy.dataset)
    assert left_out == scores.own_left_out > 0 and scores.own_note == ""
    assert left_out + len(expected) == own.validation_rows
    kept = read_rows(Path(scores.rows_path))
    assert kept is not None
    digests = [row.row_sha256 for row in expected]
    for name, loss in (("champion", scores.own_champion), ("candidate", scores.own_candidate)):
        rows = kept[f"own_{name}"]
        assert loss and loss.rows == len(rows) and [row.row_sha256 for row in rows] == digests
        assert loss.nats == pytest.approx(sum(row.nll_sum for row in rows) / sum(row.tokens for row in rows))
        both = {row.row_sha256: row.nll_sum for row in kept[name]}
        shared = [row for row in rows if row.row_sha256 in both]
        assert shared and len(shared) < len(rows) and all(row.nll_sum == both[row.row_sha256] for row in shared)
    assert scores.own_champion != scores.own_candidate


def test_without_own_rows_the_reason_is_kept(toy: Toy) -> None:
    scores = toy.score("none", own_note="its dataset is gone")
    assert (scores.own_champion, scores.own_candidate, scores.own_note) == (None, None, "its dataset is gone")
    kept = read_rows(Path(scores.rows_path))
    assert kept and set(kept) == {"base", "candidate", "champion", "base_original", "candidate_original"}
    assert [row.row_sha256 for row in kept["base"]] == [row.row_sha256 for row in validation_sample(toy.dataset, 256)]


def test_rows_that_the_candidate_was_trained_on_say_nothing(toy: Toy, tmp_path: Path) -> None:
    own = replace(toy.dataset, path=str(tmp_path))
    shutil.copy(toy.dataset.train_file, own.validation_file)
    scores = toy.score("seen", own=own)
    assert scores.own_champion is None and scores.own_left_out == toy.dataset.train_rows
    assert "was trained on the prompts of all" in scores.own_note


@pytest.mark.slow
def test_the_child_gives_what_this_process_gives(toy: Toy) -> None:
    own = own_rows(toy, 0.5)
    champion = Champion(toy.adapters["champion"], "b", own)
    work = toy.folder / "child"
    there = score(toy.dataset, toy.base, toy.candidate, champion, CONFIG, work_folder=work, write_parity=False)
    here = toy.score("here", own=own)
    assert replace(there, rows_path="") == replace(here, rows_path="") and Path(there.rows_path).is_file()


@pytest.mark.slow
def test_a_kept_score_counts_while_its_rows_are_there(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNOUT_HOME", str(toy.folder / "home"))

    def stage(config: ScoreConfig = CONFIG) -> Scores:
        return compare(config, TrainConfig(), toy.dataset, toy.candidate, toy.base, None, write_parity=False)

    first = stage()
    rows = Path(first.rows_path)
    written = rows.stat().st_mtime_ns
    # What the engine is asked later changes no score.
    assert stage() == stage(CONFIG.model_copy(update={"answers": 3})) == first
    assert rows.stat().st_mtime_ns == written
    rows.unlink()
    assert stage() == first and rows.is_file()
