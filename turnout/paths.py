"""Where state lives: the home of one project (`TURNOUT_HOME`) and the user's cache (`TURNOUT_CACHE`)."""

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs


@dataclass(frozen=True)
class Home:
    """One project's state. Removing the folder forgets everything but the cached bases.

    datasets/<key>/       prepared rows                runs/<key>/        one training run
    dataset-versions/     a record of each             sources/<sha256>/  the bytes that datasets were made of
    stages/<stage>/       results of cached stages     adapters/<sha256>/ read-only copies that engines read
    proofs/               what engines proved          engines/           records of started engines
    gateways/             records of gateway workers   journal/           emergency rollbacks not yet in the log
    logs/                 output of children           mlflow.db, mlruns/ the embedded registry
    """

    root: Path

    @property
    def datasets(self) -> Path:
        return self.root / "datasets"

    @property
    def dataset_versions(self) -> Path:
        return self.root / "dataset-versions"

    @property
    def sources(self) -> Path:
        return self.root / "sources"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def stages(self) -> Path:
        return self.root / "stages"

    @property
    def adapters(self) -> Path:
        return self.root / "adapters"

    @property
    def proofs(self) -> Path:
        return self.root / "proofs"

    @property
    def engines(self) -> Path:
        return self.root / "engines"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    @property
    def serving(self) -> Path:
        """The engine's settings, as they were last used."""
        return self.root / "serving.json"

    @property
    def gateways(self) -> Path:
        """Records of the gateway's workers."""
        return self.root / "gateways"

    @property
    def reconciler(self) -> Path:
        return self.root / "reconciler.json"

    @property
    def reconciler_metrics(self) -> Path:
        """The reconciler's part of what the gateways answer at /metrics."""
        return self.root / "reconciler.prom"

    @property
    def journal(self) -> Path:
        """Emergency rollbacks that the release log does not hold yet."""
        return self.root / "journal"

    @property
    def keys(self) -> Path:
        """The clients' keys, hashed."""
        return self.root / "keys.json"

    @property
    def admin_token(self) -> Path:
        return self.root / "admin-token"

    @property
    def routes(self) -> Path:
        return self.root / "routes.json"

    @property
    def mlflow_database(self) -> Path:
        return self.root / "mlflow.db"

    @property
    def mlflow_artifacts(self) -> Path:
        return self.root / "mlruns"

    def lock(self, name: str) -> Path:
        return self.root / "locks" / f"{name}.lock"


def home() -> Home:
    return Home(Path(os.environ.get("TURNOUT_HOME") or ".turnout").absolute())


def cache() -> Path:
    """The folder of bases, shared by every home of this user."""
    return Path(os.environ.get("TURNOUT_CACHE") or platformdirs.user_cache_dir("turnout")).absolute()
