"""Local read-only copies of registered adapters, in folders named by their digest."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from registry.artifacts import downloaded
from registry.faults import translated
from registry.version import Version
from registry.versions import artifact_folder
from turnout.digests import ADAPTER_FILES, adapter_files, adapter_sha256
from turnout.errors import ArtifactDamaged, NotFound
from turnout.files import exclusive, new_folder
from turnout.paths import Home

if TYPE_CHECKING:
    from mlflow import MlflowClient


@translated()
def fetch(client: "MlflowClient", version: Version, home: Home) -> Path:
    """The folder that engines load the version from, `adapters/<adapter_sha256>/`, verified on every call.

    A local copy that does not match is replaced from the registry.

    Raises:
        ArtifactDamaged: what the registry holds is not what was registered, or is gone.
        RegistryUnavailable: MLflow did not answer.
    """
    sha256 = version.manifest.adapter_sha256
    folder = home.adapters / sha256
    with exclusive(home.lock(f"fetch-{sha256}")):
        if not _matches(folder, sha256):
            _download(client, version, folder)
    return folder


def _download(client: "MlflowClient", version: Version, folder: Path) -> None:
    with new_folder(folder) as new:
        _copy_artifact(client, version, new)
        sha256 = version.manifest.adapter_sha256
        if not _matches(new, sha256):
            raise ArtifactDamaged(
                f"{version.served_name} in the registry is not what was registered: {_digest(new)} instead of {sha256}",
                f"restore {version.source} from a backup, or train the version again",
            )
        for name in ADAPTER_FILES:
            (new / name).chmod(0o444)
        if folder.exists():
            # Moved away first: an engine that has the damaged files open keeps them until it closes them.
            old = folder.with_name(f".{folder.name}.damaged")
            shutil.rmtree(old, ignore_errors=True)
            folder.chmod(0o755)
            folder.rename(old)
            shutil.rmtree(old, ignore_errors=True)
    folder.chmod(0o555)


def _copy_artifact(client: "MlflowClient", version: Version, target: Path) -> None:
    artifact = f"{artifact_folder(version.manifest.adapter_sha256)}/adapter"
    try:
        with downloaded(client, version.run_id, artifact, target) as copied:
            for name in ADAPTER_FILES:
                if (copied / name).is_file():
                    (copied / name).rename(target / name)
    except NotFound as gone:
        raise ArtifactDamaged(
            f"the files of {version.served_name} are gone from the registry: {gone.message}",
            f"restore {version.source} from a backup, or train the version again",
        ) from gone


def _matches(folder: Path, sha256: str) -> bool:
    return _digest(folder) == sha256


def _digest(folder: Path) -> str:
    return adapter_sha256(folder) if all(file.is_file() for file in adapter_files(folder)) else "files missing"
