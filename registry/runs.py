"""One MLflow run for each training run, and one above those of a sweep: metrics, parameters and dataset."""

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from registry.faults import error_code, translated
from registry.names import check_name
from turnout.files import exclusive
from turnout.paths import Home
from turnout.paths import home as default_home
from turnout.references import Dataset

if TYPE_CHECKING:
    from mlflow import MlflowClient

RUN_KEY = "turnout.run_key"
_PARENT = "mlflow.parentRunId"
_DIGEST_CHARACTERS = 36
_BATCH = 100


@translated()
def open_run(
    client: "MlflowClient",
    name: str,
    run_key: str,
    tags: Mapping[str, str] | None = None,
    *,
    what: str = "train",
    home: Home | None = None,
) -> str:
    """The id of the run of `run_key` in the experiment `name`: a resumed training goes on in its old run.

    `what` begins a new run's name in MLflow's pages.

    Raises:
        RegistryUnavailable: MLflow did not answer.
    """
    home = home or default_home()
    experiment = _ensure_experiment(client, check_name(name), home)
    with exclusive(home.lock(f"run-{name}")):
        run_id = _oldest_run(client, experiment, run_key)
        if run_id is None:
            client.create_run(experiment, tags={**(tags or {}), RUN_KEY: run_key}, run_name=f"{what}-{run_key[:8]}")
            # Another machine may have made one meanwhile; both go on in the older of the two.
            run_id = _oldest_run(client, experiment, run_key)
            assert run_id is not None
        elif client.get_run(run_id).info.status != "RUNNING":
            client.update_run(run_id, status="RUNNING")
    return run_id


@translated()
def nest_run(
    client: "MlflowClient",
    name: str,
    run_key: str,
    parent_id: str,
    tags: Mapping[str, str] | None = None,
    *,
    home: Home | None = None,
) -> str:
    """The id of the run of `run_key`, opened where there is none, shown below the run `parent_id` from now on.

    Raises:
        RegistryUnavailable: MLflow did not answer.
    """
    home = home or default_home()
    run_id = _oldest_run(client, _ensure_experiment(client, check_name(name), home), run_key)
    run_id = run_id or open_run(client, name, run_key, tags, home=home)
    client.set_tag(run_id, _PARENT, parent_id)
    return run_id


@translated()
def log_metrics(client: "MlflowClient", run_id: str, step: int, metrics: Mapping[str, float]) -> None:
    """Log `metrics` at `step`, in one call."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    client.log_batch(run_id, metrics=[Metric(key, float(value), now, step) for key, value in metrics.items()])


@translated()
def last_step(client: "MlflowClient", run_id: str, metric: str) -> int:
    """The highest step at which `metric` was logged; 0 where it never was."""
    return max((entry.step for entry in client.get_metric_history(run_id, metric)), default=0)


@translated()
def log_params(client: "MlflowClient", run_id: str, params: Mapping[str, Any]) -> None:
    """Log `params`, nested ones as `train.lora_rank`. A parameter that the run has keeps its first value."""
    from mlflow.entities import Param

    known = client.get_run(run_id).data.params
    new = [Param(key, value) for key, value in _flat(params) if key not in known]
    for start in range(0, len(new), _BATCH):
        client.log_batch(run_id, params=new[start : start + _BATCH])


@translated()
def link_dataset(client: "MlflowClient", run_id: str, dataset: Dataset) -> None:
    """Make `dataset` the run's training input; a second call changes nothing.

    This is what `mlflow.log_input` records, without the fluent API's process-wide active run.
    """
    from mlflow.entities import Dataset as DatasetEntity
    from mlflow.entities import DatasetInput, InputTag

    counts = {
        "num_rows": dataset.rows,
        "train_rows": dataset.train_rows,
        "validation_rows": dataset.validation_rows,
        "train_tokens": dataset.train_tokens,
        "sha256": dataset.sha256,
    }
    entity = DatasetEntity(
        name=Path(dataset.source).name.removeprefix("sample:") or "dataset",
        digest=dataset.sha256[:_DIGEST_CHARACTERS],
        source_type="local",
        source=json.dumps({"uri": dataset.source}),
        profile=json.dumps(counts),
    )
    client.log_inputs(run_id, datasets=[DatasetInput(entity, [InputTag("mlflow.data.context", "training")])])


@translated()
def finish_run(
    client: "MlflowClient", run_id: str, status: Literal["FINISHED", "FAILED", "KILLED"] = "FINISHED"
) -> None:
    """End the run, if it has not ended so already; `open_run` takes it up again."""
    if client.get_run(run_id).info.status != status:
        client.set_terminated(run_id, status)


def _ensure_experiment(client: "MlflowClient", name: str, home: Home) -> str:
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        # A server gives its own artifact root; beside a database the default is the caller's folder.
        remote = client.tracking_uri.startswith(("http://", "https://", "databricks"))
        location = None if remote else str(home.mlflow_artifacts / name)
        try:
            return str(client.create_experiment(name, artifact_location=location, tags=_experiment_note(name)))
        except MlflowException as error:
            if error_code(error) != "RESOURCE_ALREADY_EXISTS":
                raise
        experiment = client.get_experiment_by_name(name)
        assert experiment is not None
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    return str(experiment.experiment_id)


def _experiment_note(name: str) -> dict[str, str]:
    return {"mlflow.note.content": f"Training runs of the adapter `{name}`, by Turnout."}


def _oldest_run(client: "MlflowClient", experiment: str, run_key: str) -> str | None:
    found = client.search_runs(
        [experiment],
        f"tags.`{RUN_KEY}` = '{_quoted(run_key)}'",
        order_by=["attributes.start_time ASC", "attributes.run_id ASC"],
        max_results=1,
    )
    return found[0].info.run_id if found else None


def _quoted(text: str) -> str:
    if "'" in text:
        raise ValueError(f"run key {text!r} has a quote")
    return text


def _flat(params: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in params.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value)
