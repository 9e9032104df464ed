"""Where the registry is, and a client of it: a server's, or the embedded one of a home."""

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from registry.faults import translated
from registry.reach import embedded_uri, reachable, tracking_uri
from turnout.files import exclusive
from turnout.paths import Home

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["connect", "reachable", "tracking_uri"]

_DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # `--json` promises one object on standard output, and MLflow prints run URLs and progress bars there.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # Every failure is raised, so its log lines and SQL traces would only say it twice.
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    # MLflow's own defaults (7 retries of 120 s) keep a command waiting for minutes on a dead server.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}
_LOGGERS = ("mlflow", "alembic", "sqlalchemy.engine", "huey")


@translated()
def connect(home: Home) -> "MlflowClient":
    """A client of the registry that MLFLOW_TRACKING_URI names, or of the embedded one, made when it is missing.

    Raises:
        RegistryUnavailable: out of reach (told within 5 s once MLflow is imported), damaged, or of another
            MLflow's schema.
        BadInput: the URI names a folder.
    """
    reachable(home)
    for key, value in _DEFAULTS.items():
        os.environ.setdefault(key, value)
    from mlflow import MlflowClient

    # MLflow may have been imported, and its loggers set up, before our defaults stood.
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(os.environ["MLFLOW_LOGGING_LEVEL"].upper())
    uri = tracking_uri(home)
    if uri == embedded_uri(home):
        _ensure_database(home)
    return MlflowClient(tracking_uri=uri)


def _ensure_database(home: Home) -> None:
    """Make the embedded database once, whole or not at all: MLflow's migrations leave a killed one half-made."""
    if home.mlflow_database.exists():
        return
    with exclusive(home.lock("registry")):
        if home.mlflow_database.exists():
            return
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        partial = Path(f"{home.mlflow_database}.partial")
        for leftover in (partial, Path(f"{partial}-journal")):
            leftover.unlink(missing_ok=True)
        store = SqlAlchemyStore(f"sqlite:///{partial}", str(home.mlflow_artifacts))
        store._dispose_engine()
        partial.rename(home.mlflow_database)
