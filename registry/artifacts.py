"""Gets files of a run's artifacts out of whatever store MLflow keeps them in."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from registry.faults import fault_of
from turnout.errors import NotFound

if TYPE_CHECKING:
    from mlflow import MlflowClient

_MISSING = ("No such file", "404", "Not Found", "does not exist", "No such artifact")
"""A file store says FileNotFoundError or OSError for a missing artifact, a server 404 or its own 500."""


@contextmanager
def downloaded(client: "MlflowClient", run_id: str, artifact: str, beside: Path) -> Iterator[Path]:
    """Yield a copy of `artifact`, a file or a folder, on the disk of the folder `beside`, and remove it at the end.

    Raises:
        NotFound: the run has no such artifact, or not any more.
        RegistryUnavailable: MLflow or its store did not answer.
        ResourceShort: the disk is full.
    """
    # Stores differ in how much of the artifact's path they repeat under the target.
    with tempfile.TemporaryDirectory(dir=beside, prefix=".download.") as scratch:
        try:
            copied = Path(client.download_artifacts(run_id, artifact, scratch))
        except Exception as error:
            fault = fault_of(error)
            if fault is not None and not any(words in str(error) for words in _MISSING):
                raise fault from error
            raise NotFound(
                f"the run {run_id} has no artifact {artifact}: {error}", "Restore it from a backup."
            ) from error
        yield copied
