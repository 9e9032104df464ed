"""Reports of runs: kept among the artifacts of the MLflow run, and named by the version that the run made."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from registry.faults import translated
from registry.version import Version

if TYPE_CHECKING:
    from mlflow import MlflowClient

FOLDER = "report"
TAG = "report"


@translated()
def keep_report(client: "MlflowClient", version: Version, files: Sequence[Path]) -> str:
    """Put `files` into the artifacts of the version's run, replacing those of the same name.

    The address of the first of them, which is given back, goes into the version's tag `report` and its description.

    Raises:
        RegistryUnavailable: MLflow did not answer.
    """
    for file in files:
        client.log_artifact(version.run_id, str(file), FOLDER)
    address = report_address(client, version.run_id, files[0].name)
    number = str(version.number)
    client.set_model_version_tag(version.name, number, TAG, address)
    description = client.get_model_version(version.name, number).description or ""
    if address not in description:  # people may have written more into it, which stays
        link = f"[Report of the run]({address})" if address.startswith("http") else f"Report of the run: `{address}`"
        client.update_model_version(version.name, number, f"{description}\n{link}\n")
    return address


def report_address(client: "MlflowClient", run_id: str, file: str) -> str:
    """The page of MLflow that shows the report, or, where MLflow is no server, the artifact's URI."""
    server = urlsplit(client.tracking_uri)
    if server.scheme not in ("http", "https"):
        return f"runs:/{run_id}/{FOLDER}/{file}"
    experiment = client.get_run(run_id).info.experiment_id
    # A name and a password in the URI are the caller's own.
    root = urlunsplit((server.scheme, server.netloc.rpartition("@")[2], server.path.rstrip("/"), "", ""))
    return f"{root}/#/experiments/{experiment}/runs/{run_id}/artifacts/{FOLDER}/{file}"
