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


def test_metrics_params_and_reports_are_kept(client: MlflowClient, home: Home) -> None:
    run_id = runs.open_run(client, NAME, "key-1", home=home)
    for step in (1, 2, 2):
        runs.log_metrics(client, run_id, step, {"loss": 3.0 - step, "grad_norm": 0.5})
    runs.log_params(client, run_id, {"train": {"lora_rank": 8, "target_modules": ["q_proj"]}, "seed": 1})
    runs.log_params(client, run_id, {"train": {"lora_rank": 16}, "extra": {str(i): i for i in range(150)}})
    report = home.root / "report.md"
    report.write_text("# Report")
    runs.log_report_files(client, run_id, [report])

    data = client.get_run(run_id).data
    assert data.metrics == {"loss": 1.0, "grad_norm": 0.5}
    assert data.params["train.lora_rank"] == "8" and data.params["extra.149"] == "149"
    assert [file.path for file in client.list_artifacts(run_id, "report")] == ["report/report.md"]


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
