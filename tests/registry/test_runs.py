import json

import pytest
from mlflow import MlflowClient

from registry import runs
from tests.registry.material import DATASET, NAME
from turnout.paths import Home


def test_a_resumed_training_goes_on_in_its_run(client: MlflowClient, home: Home) -> None:
    run_id = runs.open_run(client, NAME, "key-1", {"stage": "train"}, home=home)
    runs.log_metrics(client, run_id, 1, {"loss": 2.0})
    runs.finish_run(client, run_id, "FAILED")

    assert runs.open_run(client, NAME, "key-1", home=home) == run_id
    run = client.get_run(run_id)
    assert run.info.status == "RUNNING" and run.data.tags["stage"] == "train"
    assert client.get_experiment(run.info.experiment_id).name == NAME
    assert runs.open_run(client, NAME, "key-2", home=home) != run_id


def test_a_deleted_experiment_comes_back(client: MlflowClient, home: Home) -> None:
    run_id = runs.open_run(client, NAME, "key-1", home=home)
    client.delete_experiment(client.get_run(run_id).info.experiment_id)
    runs.log_metrics(client, runs.open_run(client, NAME, "key-2", home=home), 1, {"loss": 2.0})


def test_a_run_is_nested_below_the_newest_sweep(client: MlflowClient, home: Home) -> None:
    parents = [runs.open_run(client, NAME, key, what="sweep", home=home) for key in ("sweep-1", "sweep-2")]
    done = runs.open_run(client, NAME, "key-1", home=home)
    runs.finish_run(client, done)
    new = runs.nest_run(client, NAME, "key-2", parents[0], {"stage": "train"}, home=home)
    for parent in parents:
        assert runs.nest_run(client, NAME, "key-1", parent, home=home) == done
    assert client.get_run(done).info.status == "FINISHED"
    assert client.get_run(done).data.tags["mlflow.parentRunId"] == parents[1]
    nested = client.get_run(new).data.tags
    assert (nested["mlflow.parentRunId"], nested["stage"]) == (parents[0], "train")
    assert runs.open_run(client, NAME, "key-2", home=home) == new
    assert client.get_run(parents[0]).info.run_name == "sweep-sweep-1"


def test_metrics_and_params_are_kept(client: MlflowClient, home: Home) -> None:
    run_id = runs.open_run(client, NAME, "key-1", home=home)
    for step in (1, 2, 2):
        runs.log_metrics(client, run_id, step, {"loss": 3.0 - step, "grad_norm": 0.5})
    runs.log_params(client, run_id, {"train": {"lora_rank": 8, "target_modules": ["q_proj"]}, "seed": 1})
    runs.log_params(client, run_id, {"train": {"lora_rank": 16}, "extra": {str(i): i for i in range(150)}})

    data = client.get_run(run_id).data
    assert data.metrics == {"loss": 1.0, "grad_norm": 0.5}
    assert data.params["train.lora_rank"] == "8" and data.params["extra.149"] == "149"


def test_a_dataset_is_linked_once(client: MlflowClient, home: Home) -> None:
    run_id = runs.open_run(client, NAME, "key-1", home=home)
    for _ in range(2):
        runs.link_dataset(client, run_id, DATASET)
    (linked,) = client.get_run(run_id).inputs.dataset_inputs
    assert linked.dataset.name == "incidents" and DATASET.sha256.startswith(linked.dataset.digest)
    assert json.loads(linked.dataset.profile)["sha256"] == DATASET.sha256


def test_artifacts_stay_in_the_home(client: MlflowClient, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = home.root / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    run_id = runs.open_run(client, NAME, "key-1", home=home)
    assert str(home.mlflow_artifacts) in client.get_run(run_id).info.artifact_uri
    assert not list(elsewhere.iterdir())
