"""The dataset version of each registered adapter, among the artifacts of its run: any machine can have it again."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from registry.artifacts import downloaded
from registry.faults import translated
from registry.version import Version
from turnout.dataset_records import read_record
from turnout.digests import file_sha256, json_sha256
from turnout.errors import ArtifactDamaged, NotFound
from turnout.files import exclusive, new_folder, read_state, write_json
from turnout.paths import Home
from turnout.references import Dataset, to_json

if TYPE_CHECKING:
    from mlflow import MlflowClient

_REFERENCE = "dataset.json"
_VALIDATION = "validation.parquet"
_SOURCE = "source"


@dataclass(frozen=True)
class _Reference:
    """What `dataset.json` holds: the dataset without a path, and the digest of the validation file beside it."""

    dataset: Dataset
    validation_sha256: str


@translated()
def keep_dataset(client: "MlflowClient", run_id: str, dataset: Dataset, source: Path) -> None:
    """Put the source's bytes, the validation rows and the reference of `dataset` among the run's artifacts.

    `source` is a file, or a folder of files alone. A second call changes nothing.

    Raises:
        RegistryUnavailable: MLflow did not answer.
        ResourceShort: the registry's disk is full.
    """
    target = _artifact(dataset.sha256)
    for file in sorted(source.iterdir()) if source.is_dir() else [source]:
        client.log_artifact(run_id, str(file), f"{target}/{_SOURCE}")
    client.log_artifact(run_id, str(dataset.validation_file), target)
    reference = _Reference(replace(dataset, path=""), file_sha256(dataset.validation_file))
    with tempfile.TemporaryDirectory() as folder:
        write_json(Path(folder) / _REFERENCE, to_json(reference))
        client.log_artifact(run_id, str(Path(folder) / _REFERENCE), target)  # last: where it is, the others are


@translated()
def fetch_dataset(client: "MlflowClient", version: Version, home: Home) -> Dataset:
    """The dataset that `version` was trained on, as its base's tokens; the validation rows are verified on every call.

    Where this home prepared it, that is the whole dataset; else there is no `train_file`.

    Raises:
        NotFound: the version was registered without its dataset.
        ArtifactDamaged: what the registry holds is not what was registered.
        RegistryUnavailable: MLflow did not answer.
    """
    if (prepared := _prepared_here(version, home)) is not None:
        return prepared
    manifest = version.manifest
    tokens = [manifest.dataset_sha256, manifest.tokenizer_sha256, manifest.template_sha256, manifest.eos_ids]
    folder = home.datasets / f"fetched-{json_sha256(tokens)[:32]}"
    with exclusive(home.lock(f"dataset-{folder.name}")):
        return _intact(folder) or _download(client, version, folder)


@contextmanager
def downloaded_source(client: "MlflowClient", version: Version, home: Home) -> Iterator[tuple[str, list[Path]]]:
    """Yield the digest of the source that `version` was trained on and copies of its files, gone when the block ends.

    The caller verifies them: a file's digest and a folder's are not made alike.

    Raises:
        NotFound: the version was registered without its dataset.
        ArtifactDamaged: what the registry holds is not what was registered.
        RegistryUnavailable: MLflow did not answer.
    """
    home.root.mkdir(parents=True, exist_ok=True)
    sha256 = _read_reference(client, version, home.root).dataset.source_sha256
    with _part(client, version, _SOURCE, home.root) as source:
        yield sha256, sorted(source.iterdir())


def _artifact(dataset_sha256: str) -> str:
    return f"datasets/{dataset_sha256[:16]}"


def _prepared_here(version: Version, home: Home) -> Dataset | None:
    manifest = version.manifest
    record = read_record(home, manifest.dataset_sha256)
    if record is None:
        return None
    base, dataset = record.base, record.dataset
    tokens = (base.tokenizer_sha256, base.template_sha256, base.eos_ids)
    if tokens != (manifest.tokenizer_sha256, manifest.template_sha256, manifest.eos_ids):
        return None  # the same rows for another base
    there = dataset.train_file.is_file() and dataset.validation_file.is_file()
    return dataset if there and file_sha256(dataset.validation_file) == record.validation_sha256 else None


def _intact(folder: Path) -> Dataset | None:
    """The dataset in a folder that was fetched, if its rows are those that its reference names."""
    reference, rows = read_state(folder / _REFERENCE, _Reference), folder / _VALIDATION
    if reference is None or not rows.is_file() or file_sha256(rows) != reference.validation_sha256:
        return None
    return replace(reference.dataset, path=str(folder))


def _download(client: "MlflowClient", version: Version, folder: Path) -> Dataset:
    with new_folder(folder) as new:
        write_json(new / _REFERENCE, to_json(_read_reference(client, version, new)))
        try:
            with _part(client, version, _VALIDATION, new) as rows:
                rows.rename(new / _VALIDATION)
        except NotFound as gone:
            raise _damaged(version, gone.message) from gone
        fetched = _intact(new)
        if fetched is None:
            raise _damaged(version, f"{_VALIDATION} has another digest")
        shutil.rmtree(folder, ignore_errors=True)
    return replace(fetched, path=str(folder))


def _read_reference(client: "MlflowClient", version: Version, beside: Path) -> _Reference:
    with _part(client, version, _REFERENCE, beside) as file:
        reference = read_state(file, _Reference)
    if reference is None or reference.dataset.sha256 != version.manifest.dataset_sha256:
        raise _damaged(version, f"{_REFERENCE} does not describe it")
    return reference


@contextmanager
def _part(client: "MlflowClient", version: Version, name: str, beside: Path) -> Iterator[Path]:
    dataset_sha256 = version.manifest.dataset_sha256
    try:
        with downloaded(client, version.run_id, f"{_artifact(dataset_sha256)}/{name}", beside) as part:
            yield part
    except NotFound as gone:
        raise NotFound(
            f"{version.served_name} has no dataset {dataset_sha256[:12]} in the registry: {gone.message}",
            "Versions that an older Turnout registered have none; else restore the run's artifacts from a backup.",
        ) from gone


def _damaged(version: Version, why: str) -> ArtifactDamaged:
    sha256 = version.manifest.dataset_sha256
    return ArtifactDamaged(
        f"the dataset {sha256[:12]} of {version.served_name} in the registry is damaged: {why}",
        f"restore the artifacts of run {version.run_id} from a backup, or train the version again",
    )
