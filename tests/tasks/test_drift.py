# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""Fresh rows against what a champion learnt: real rows, real registry, and for the loss a real model."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from data.config import DataConfig
from tasks.drift import Drift, measure_drift
from tasks.retrain_config import DriftConfig, RetrainConfig
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import make_adapter
from tests.tasks.learnt import SAMPLE, Learner
from turnout.digests import adapter_files, adapter_sha256
from turnout.errors import DataError
from turnout.paths import Home
from turnout.references import Adapter, Base

NO_LOSS = RetrainConfig(drift=DriftConfig(loss=None))


@pytest.fixture
def learner(client: MlflowClient, home: Home, tmp_path: Path) -> Learner:
    return Learner.make(client, home, tmp_path)


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """Half of the rows that the champion learnt, as new traffic of the same kind."""
    file = tmp_path / "fresh.jsonl"
    file.write_text("".join(SAMPLE.read_text("utf-8").splitlines(keepends=True)[::2]), "utf-8")
    return file


def measure(learner: Learner, fresh: Path, config: RetrainConfig = NO_LOSS) -> Drift:
    data = DataConfig(path=str(fresh), max_length=2000)
    return measure_drift(config, data, learner.champion(), learner.prepared()[1], double_quantisation=True)


def test_rows_of_the_same_kind_are_no_drift_and_every_figure_is_told(learner: Learner, fresh: Path) -> None:
    found = measure(learner, fresh)
    assert not found.drifted
    assert [(shift.name, shift.figure is not None) for shift in found.shifts] == [
        ("length", True),
        ("vocabulary", True),
    ]
    assert all(shift.limit and "at most" in shift.text for shift in found.shifts)
    assert found.rows == len(fresh.read_text("utf-8").splitlines())


def test_long_prompts_of_other_words_are_drift(learner: Learner, fresh: Path) -> None:
    lines = [json.dumps({"instruction": f"Q{n}? " * 60, "output": "4"}) + "\n" for n in range(40)]
    fresh.write_text("".join(lines), "utf-8")
    found = measure(learner, fresh)
    assert [shift.drifted for shift in found.shifts] == [True, True]
    assert "Kolmogorov-Smirnov" in found.reason and "Jensen-Shannon" in found.reason


def test_too_few_rows_say_nothing(learner: Learner, fresh: Path) -> None:
    fresh.write_text("".join(SAMPLE.read_text("utf-8").splitlines(keepends=True)[:5]), "utf-8")
    found = measure(learner, fresh)
    assert not found.drifted
    assert found.note == "5 fresh rows say nothing: retrain.min_rows is 20"


def test_a_champion_of_another_tokenizer_is_not_compared(learner: Learner, fresh: Path) -> None:
    champion = learner.champion()
    manifest = champion.manifest.model_copy(update={"template_sha256": "f" * 64})
    champion = replace(champion, manifest=manifest)
    data, base = DataConfig(path=str(fresh), max_length=2000), learner.prepared()[1]
    assert "another tokenizer" in measure_drift(NO_LOSS, data, champion, base, double_quantisation=True).note


def test_fresh_rows_that_are_broken_are_an_error(learner: Learner, fresh: Path) -> None:
    fresh.write_text('{"instruction": "why?"}\n', "utf-8")
    with pytest.raises(DataError, match="line 1"):
        measure(learner, fresh)


def real_adapter(base: Base, folder: Path) -> Adapter:
    """Loadable weights without any effect, registered under what a stand-in is registered with."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    config = LoraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM")
    get_peft_model(AutoModelForCausalLM.from_pretrained(base.path), config).save_pretrained(folder)
    size = sum(file.stat().st_size for file in adapter_files(folder))
    return replace(
        make_adapter(folder / "stand-in"), path=str(folder), adapter_sha256=adapter_sha256(folder), bytes=size
    )


@pytest.mark.slow
def test_the_champions_loss_is_measured_on_the_fresh_rows_once(learner: Learner, fresh: Path) -> None:
    base = learner.prepared()[1]
    champion = learner.promote(learner.register(real_adapter(base, learner.home.root / "real")))
    data = DataConfig(path=str(fresh), max_length=2000)
    config = RetrainConfig(max_rows=30)
    found = measure_drift(config, data, champion, base, double_quantisation=True)
    loss = found.shifts[-1]
    # Random weights know nothing of 259 tokens; the manifest claims a loss of 1.0.
    assert (loss.name, loss.drifted) == ("loss", True), loss.text
    assert loss.figure == pytest.approx(math.log(259) - 1, abs=1.5)
    (result,) = learner.home.stages.glob("drift/*/result.json")
    result.unlink()  # the child is not asked again
    assert measure_drift(config, data, champion, base, double_quantisation=True) == found
