import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient

from registry import releases, versions
from registry.store import connect, reachable
from tests.registry.material import NAME, register_one
from turnout.errors import BadInput, RegistryUnavailable
from turnout.paths import Home


@pytest.fixture
def silent_server() -> str:
    """A port that accepts connections and never answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    held = []
    threading.Thread(target=lambda: held.append(listener.accept()), daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1", "postgresql://u:secret@127.0.0.1:1/db", "silent"])
def test_a_registry_out_of_reach_is_told_within_five_seconds(
    uri: str, silent_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", silent_server if uri == "silent" else uri)
    begin = time.monotonic()
    with pytest.raises(RegistryUnavailable, match="out of reach") as caught:
        connect(Home(tmp_path))
    assert time.monotonic() - begin < 5
    assert "secret" not in str(caught.value)


def test_a_server_that_dies_later_is_told(client: MlflowClient) -> None:
    dead = MlflowClient(tracking_uri="http://127.0.0.1:1")
    begin = time.monotonic()
    with pytest.raises(RegistryUnavailable, match="did not answer"):
        releases.read_log(dead, NAME)
    assert time.monotonic() - begin < 5


def test_a_folder_is_no_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "./mlruns")
    with pytest.raises(BadInput, match="is a folder"):
        reachable(Home(tmp_path))


def test_a_damaged_database_is_told_at_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.mlflow_database.write_text("not a database at all")
    with pytest.raises(RegistryUnavailable, match="is not a SQLite database"):
        connect(home)


def test_a_database_of_another_schema_says_how_to_upgrade(home: Home) -> None:
    with sqlite3.connect(home.mlflow_database) as database:
        database.execute("UPDATE alembic_version SET version_num = '0'")
    with pytest.raises(RegistryUnavailable) as caught:
        connect(home)
    assert "mlflow db upgrade" in caught.value.next_step


def test_a_database_that_breaks_later_is_told(client: MlflowClient, home: Home) -> None:
    register_one(client, home)
    home.mlflow_database.write_bytes(b"damaged " * 10_000)
    with pytest.raises(RegistryUnavailable, match="did not answer"):
        versions.list_versions(client, NAME)


def test_asking_whether_it_is_reachable_imports_no_mlflow(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, registry.reach, registry.store, registry.versions, registry.releases, turnout.paths\n"
        "registry.reach.reachable(turnout.paths.Home(pathlib.Path(sys.argv[1])))\n"
        "assert 'mlflow' not in sys.modules and 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_two_processes_make_one_database_and_say_nothing(tmp_path: Path) -> None:
    code = "import sys, pathlib, registry.store as s, turnout.paths as p; s.connect(p.Home(pathlib.Path(sys.argv[1])))"
    command = [sys.executable, "-c", code, str(tmp_path / "home")]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
    children = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment) for _ in range(2)
    ]
    outputs = [child.communicate()[0] for child in children]
    assert outputs == [b"", b""] and [child.returncode for child in children] == [0, 0]
    assert sorted(file.name for file in (tmp_path / "home").iterdir()) == ["locks", "mlflow.db"]
    with sqlite3.connect(tmp_path / "home/mlflow.db") as database:
        assert database.execute("SELECT count(*) FROM experiments").fetchone() == (1,)
