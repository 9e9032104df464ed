"""The same registry on a real MLflow server."""

import shutil
from pathlib import Path

import pytest

from registry import aliases, releases, runs, versions
from registry.adapters import fetch
from registry.store import connect
from tests.registry.material import DATASET, register_one
from turnout.errors import ArtifactDamaged, NotFound, RegistryConflict
from turnout.paths import Home

pytestmark = pytest.mark.e2e


@pytest.fixture
def remote(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Home:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    return Home(tmp_path / "home")


def test_a_version_goes_through_the_server_and_back(remote: Home, capfd: pytest.CaptureFixture[str]) -> None:
    client = connect(remote)
    with pytest.raises(NotFound):
        versions.list_versions(client, "nobody")
    version = register_one(client, remote)
    assert register_one(client, remote) == version
    runs.link_dataset(client, version.run_id, DATASET)
    runs.log_params(client, version.run_id, {"train": {"lora_rank": 8}})
    runs.finish_run(client, version.run_id)
    folder = fetch(client, version, remote)
    assert (folder / "adapter_model.safetensors").read_bytes() == b"weights"
    assert not remote.mlflow_database.exists() and not remote.mlflow_artifacts.exists()
    assert capfd.readouterr() == ("", "")


def test_releases_work_on_the_server(remote: Home) -> None:
    client = connect(remote)
    for weights in (b"1", b"2"):
        register_one(client, remote, "released", weights=weights)
    releases.append(client, "released", kind="promote", champion=1, parent=0)
    releases.append(client, "released", kind="promote", champion=2, parent=1, reason="better")
    with pytest.raises(RegistryConflict, match="promote of v2"):
        releases.append(client, "released", kind="promote", champion=1, parent=1)
    release = releases.fold(releases.read_log(client, "released"))
    assert (release.champion, release.previous, release.generation, release.head) == (2, 1, 2, 3)
    assert aliases.write_view(client, "released", release) == []
    assert aliases.read_aliases(client, "released") == {"champion": 2, "previous": 1}


def test_an_artifact_that_the_server_lost_is_told(remote: Home, server_artifacts: Path) -> None:
    client = connect(remote)
    version = register_one(client, remote, "lost-bot", weights=b"lost")
    (stored,) = server_artifacts.glob(f"*/*/artifacts/versions/{version.manifest.adapter_sha256[:16]}")
    shutil.rmtree(stored)
    with pytest.raises(ArtifactDamaged, match="gone from the registry"):
        fetch(client, version, remote)
