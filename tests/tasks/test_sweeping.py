# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""A sweep's rows and MLflow runs; the trainings are real, on a toy base."""

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tasks.config import ScoreConfig, TrainConfig
from tasks.sweeping import Combination, Scored, Sweep, parent_run, sweep_rows, train_and_score
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import BASE, DATASET, NAME
from tests.tasks.toy import make_base, make_dataset
from turnout.errors import ResourceShort, TrainingFailed
from turnout.paths import Home


def tried(*ranks: int) -> list[Combination]:
    train = TrainConfig(learning_rate=0.02, max_steps=2, batch_size=8)
    return [
        Combination(
            number,
            len(ranks),
            {"train.lora_rank": rank},
            (f"train.lora_rank={rank}",),
            train.model_copy(update={"lora_rank": rank}),
        )
        for number, rank in enumerate(ranks, 1)
    ]


ABOUT = Sweep(NAME, DATASET, BASE, ScoreConfig(), write_parity=False)
FAILED = ResourceShort("out of memory", "Lower train.batch_size.")


def test_the_first_of_the_best_is_chosen_and_a_failure_is_a_row() -> None:
    ends = [Scored(2.0, "a", 3.0), FAILED, Scored(1.5, "b", 4.0), Scored(1.5, "c", 5.0)]
    rows = sweep_rows(tried(4, 8, 16, 32), ends)
    assert [row["chosen"] for row in rows] == [False, False, True, False]
    assert rows[1] == {
        "settings": {"train.lora_rank": 8},
        "chosen": False,
        "eval_loss": None,
        "run_id": None,
        "seconds": None,
        "error": "out of memory",
    }
    assert json.dumps(rows)


def test_where_all_failed_the_sweep_has() -> None:
    with pytest.raises(TrainingFailed, match=r"none of the 2 combinations .* train\.lora_rank=4: out of memory\n"):
        sweep_rows(tried(4, 8), [FAILED, FAILED])


def test_the_same_sweep_goes_on_in_its_run(client: MlflowClient, home: Home) -> None:
    with pytest.raises(KeyboardInterrupt), parent_run(ABOUT, tried(4, 8)) as first:
        raise KeyboardInterrupt
    assert client.get_run(first).info.status == "FAILED"
    with parent_run(ABOUT, tried(4, 8)) as again:
        assert client.get_run(again).info.status == "RUNNING"
    with parent_run(ABOUT, tried(4, 16)) as other:
        pass
    run = client.get_run(first)
    assert again == first != other and run.info.status == "FINISHED"
    assert run.data.params["sweep.train.lora_rank"] == "4, 8" and run.data.tags["turnout.stage"] == "sweep"


@pytest.mark.e2e
@pytest.mark.slow
def test_combinations_are_trained_once_below_one_run(
    client: MlflowClient, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNOUT_CACHE", str(tmp_path / "cache"))
    base = make_base(tmp_path / "toy")
    score = ScoreConfig(max_rows=4, samples=0)
    about = Sweep(NAME, make_dataset(tmp_path / "data", base), base, score, write_parity=False)
    combinations = tried(4, 8)
    with parent_run(about, combinations) as parent:
        first = [train_and_score(each, about, parent) for each in combinations]
        again = [train_and_score(each, about, parent) for each in combinations]
    assert [(end.eval_loss, end.run_id) for end in again] == [(end.eval_loss, end.run_id) for end in first]
    assert max(end.seconds for end in again) < min(end.seconds for end in first)
    children = client.search_runs(
        [client.get_run(parent).info.experiment_id], f"tags.`mlflow.parentRunId` = '{parent}'"
    )
    assert {child.info.run_id for child in children} == {end.run_id for end in first}
    for child in children:
        assert child.info.status == "FINISHED" and "loss" in child.data.metrics and "eval_loss" in child.data.metrics
