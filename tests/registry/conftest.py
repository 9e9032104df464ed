"""Registries to test on: a migrated SQLite one for each test, and a real MLflow server."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient

from registry.store import connect, reachable
from turnout.errors import RegistryUnavailable
from turnout.paths import Home


@pytest.fixture(autouse=True)
def no_registry_of_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    monkeypatch.setenv("TURNOUT_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh database file; its migrations take seconds, so tests copy it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.delenv("MLFLOW_REGISTRY_URI", raising=False)
        home = Home(tmp_path_factory.mktemp("migrated"))
        connect(home)
    return home.mlflow_database


@pytest.fixture
def home(tmp_path: Path, migrated: Path) -> Home:
    home = Home(tmp_path / "home")
    home.root.mkdir()
    shutil.copy(migrated, home.mlflow_database)
    return home


@pytest.fixture
def client(home: Home) -> MlflowClient:
    return connect(home)


@pytest.fixture(scope="session")
def server_artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server keeps its artifacts."""
    return tmp_path_factory.mktemp("server") / "artifacts"


@pytest.fixture(scope="session")
def server(server_artifacts: Path, migrated: Path) -> Iterator[str]:
    """The URL of an `mlflow server` that proxies artifacts."""
    folder = server_artifacts.parent
    shutil.copy(migrated, folder / "mlflow.db")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(server_artifacts)]
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "2", *store]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
            env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"},
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until_reachable(url, process, folder / "server.log")
        yield url
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)


def _wait_until_reachable(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 180
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", url)
        while True:
            try:
                return reachable(Home(Path("unused")))
            except RegistryUnavailable:
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
                time.sleep(0.3)
