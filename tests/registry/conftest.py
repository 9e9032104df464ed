"""Registries to test on: a migrated SQLite one for each test, an MLflow server, and one over PostgreSQL."""

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from mlflow import MlflowClient

from registry.store import connect
from registry.version import Version
from tests.registry.backends import Postgres, Server, mlflow_server, postgres, postgres_programs
from tests.registry.material import register_one
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
def sqlite_server(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(migrated, folder / "mlflow.db")
    with mlflow_server(folder, f"sqlite:///{folder}/mlflow.db") as server:
        yield server


@pytest.fixture(scope="session")
def database() -> Iterator[Postgres]:
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: no initdb on PATH or in /usr/lib/postgresql/*/bin")
    with postgres(programs) as database:
        yield database


@pytest.fixture(scope="session")
def postgres_server(database: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with mlflow_server(tmp_path_factory.mktemp("postgres-server"), database.uri) as server:
        yield server


@dataclass(frozen=True)
class Registry:
    """A registry that MLFLOW_TRACKING_URI names, and an adapter's name that no other test uses."""

    home: Home
    name: str

    # Made when first asked for: forked children must not inherit a connection to SQLite.
    @cached_property
    def client(self) -> MlflowClient:
        return connect(self.home)

    def register(self, *weights: bytes) -> list[Version]:
        return [register_one(self.client, self.home, self.name, each) for each in weights]

    def elsewhere(self, machine: int) -> "Registry":
        """The same registry as another machine sees it, with a home of its own."""
        return Registry(Home(self.home.root / f"machine{machine}"), self.name)


SERVERS = [
    pytest.param("sqlite_server", id="server", marks=pytest.mark.slow),
    pytest.param("postgres_server", id="postgres", marks=pytest.mark.slow),
]


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Server:
    """An `mlflow server` that proxies artifacts, on either database."""
    started: Server = request.getfixturevalue(request.param)
    return started


@pytest.fixture
def remote(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    return Registry(Home(tmp_path / "home"), f"bot-{uuid.uuid4().hex[:8]}")


@pytest.fixture(params=["sqlite", *SERVERS])
def registry(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Each kind of registry in turn."""
    if request.param == "sqlite":
        uri = f"sqlite:///{request.getfixturevalue('home').mlflow_database}"
    else:
        uri = request.getfixturevalue(request.param).url
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return Registry(Home(tmp_path / "home"), f"bot-{uuid.uuid4().hex[:8]}")
