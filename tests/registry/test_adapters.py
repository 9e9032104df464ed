import shutil
from pathlib import Path

import pytest
from mlflow import MlflowClient

from registry.adapters import fetch
from registry.manifest import check_fits
from tests.registry.material import BASE, register_one
from turnout.errors import ArtifactDamaged
from turnout.paths import Home


def test_a_fetched_adapter_is_read_only_and_holds_the_two_files(client: MlflowClient, home: Home) -> None:
    version = register_one(client, home)
    folder = fetch(client, version, home)
    assert folder == home.adapters / version.manifest.adapter_sha256
    assert sorted(file.name for file in folder.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    assert folder.stat().st_mode & 0o222 == 0 and all(file.stat().st_mode & 0o222 == 0 for file in folder.iterdir())
    check_fits(version.manifest, BASE, folder)


def test_a_damaged_copy_is_fetched_again(client: MlflowClient, home: Home) -> None:
    version = register_one(client, home)
    weights = fetch(client, version, home) / "adapter_model.safetensors"
    weights.chmod(0o644)
    weights.write_bytes(b"damaged")
    assert (fetch(client, version, home) / "adapter_model.safetensors").read_bytes() == b"weights"
    assert [each.name for each in home.adapters.iterdir()] == [version.manifest.adapter_sha256]


def test_a_damaged_artifact_is_refused_and_leaves_nothing(client: MlflowClient, home: Home) -> None:
    version = register_one(client, home)
    Path(version.source, "adapter_model.safetensors").write_bytes(b"damaged")
    with pytest.raises(ArtifactDamaged, match="is not what was registered"):
        fetch(client, version, home)
    assert not list(home.adapters.iterdir())


@pytest.mark.parametrize("part", ["adapter_config.json", ""])
def test_a_missing_artifact_is_told(client: MlflowClient, home: Home, part: str) -> None:
    version = register_one(client, home)
    gone = Path(version.source, part)
    gone.unlink() if part else shutil.rmtree(gone)
    with pytest.raises(ArtifactDamaged):
        fetch(client, version, home)


def test_a_local_copy_needs_no_artifact(client: MlflowClient, home: Home) -> None:
    version = register_one(client, home)
    folder = fetch(client, version, home)
    shutil.rmtree(version.source)
    assert fetch(client, version, home) == folder
