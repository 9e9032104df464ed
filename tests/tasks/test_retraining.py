# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""Whether a retraining has anything to do; the registry and the prepared rows are real."""

import multiprocessing
from pathlib import Path

import pytest
from mlflow import MlflowClient

from flows.presets.loading import load_preset
from registry.manifest import GateRule
from registry.releases import append
from registry.verdicts import note_gate
from registry.versions import get_version, tag_version
from tasks.retraining import Tried, alone, already_tried
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.tasks.learnt import Learner
from turnout.files import exclusive
from turnout.paths import Home

PASSED = (GateRule("proof", True, 0.001, 0.02, "fine"),)


@pytest.fixture
def learner(client: MlflowClient, home: Home, tmp_path: Path) -> Learner:
    return Learner.make(client, home, tmp_path)


def tried(learner: Learner, *more: str) -> Tried | None:
    dataset, base = learner.prepared(*more)
    return already_tried("bot", load_preset("tiny-cpu", [*learner.args, *more]).train, dataset, base)


def test_a_name_without_versions_has_everything_to_learn(learner: Learner) -> None:
    assert tried(learner) is None


def test_what_the_champion_learnt_is_not_trained_again_and_what_it_did_not_is(learner: Learner) -> None:
    learner.champion()
    found = tried(learner)
    assert found and found.version == 1
    assert found.reason == "bot-v1 was trained on the same rows with the same settings"
    assert tried(learner, "train.seed=1") is None
    assert tried(learner, "data.validation_fraction=0.3") is None
    learner.add_row()
    assert tried(learner) is None


def test_rows_in_another_order_of_bytes_are_the_same_rows(learner: Learner) -> None:
    learner.champion()
    text = learner.rows.read_text("utf-8")
    learner.rows.write_text(text.replace("\n", "\r\n"), "utf-8")
    assert tried(learner)


def test_a_run_that_was_cut_off_before_the_gate_goes_on(learner: Learner) -> None:
    learner.champion()
    learner.version(b"two", "train.seed=1")
    assert tried(learner, "train.seed=1") is None


def test_what_the_gate_refused_is_not_tried_every_night(learner: Learner) -> None:
    learner.champion()
    learner.version(b"two", "train.seed=1")
    tag_version(learner.client, "bot", 2, {"refused": "eval loss 2.0 against the champion's 1.0"})
    found = tried(learner, "train.seed=1")
    assert found and found.version == 2
    assert "was refused: eval loss 2.0" in found.reason


def test_what_passed_and_was_not_released_waits_for_a_person(learner: Learner) -> None:
    learner.champion()
    note_gate(learner.client, learner.version(b"two", "train.seed=1"), PASSED)
    found = tried(learner, "train.seed=1")
    assert found and found.version == 2
    assert "`turnout promote bot v2` releases it" in found.reason


def test_what_was_rolled_back_stays_so(learner: Learner) -> None:
    learner.champion()
    learner.champion(b"two", "train.seed=1")
    append(learner.client, "bot", kind="rollback", champion=1, parent=2)
    found = tried(learner, "train.seed=1")
    assert found and "was rolled back" in found.reason


def test_a_name_is_retrained_once_at_a_time(learner: Learner) -> None:
    with alone("bot") as first, alone("bot") as second, alone("other") as other:
        assert (first, second, other) == (True, False, True)
    with alone("bot") as again:
        assert again


def test_an_error_inside_is_the_error_that_comes_out_and_frees_the_name(learner: Learner) -> None:
    with pytest.raises(BlockingIOError, match="mine"), alone("bot"):
        raise BlockingIOError("mine")
    with exclusive(learner.home.lock("retrain-bot"), wait=False):
        pass
