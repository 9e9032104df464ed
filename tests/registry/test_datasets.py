"""A registered version's dataset, as other machines get it out of the registry."""

from dataclasses import replace
from pathlib import Path

import pytest

from registry.datasets import downloaded_source, fetch_dataset
from registry.version import Version
from tests.registry.conftest import Registry
from tests.registry.material import BASE, DATASET, register_with_dataset
from turnout.dataset_records import DatasetRecord, write_record
from turnout.digests import file_sha256, files_sha256
from turnout.errors import ArtifactDamaged, NotFound
from turnout.paths import Home
from turnout.references import Dataset


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(b"\xef\xbb\xbfone\r\n")
    (folder / "more rows.csv").write_bytes(b"two")
    return folder


@pytest.fixture
def dataset(tmp_path: Path, source: Path) -> Dataset:
    folder = tmp_path / "prepared"
    folder.mkdir()
    (folder / "train.parquet").write_bytes(b"training rows")
    (folder / "validation.parquet").write_bytes(b"validation rows")
    return replace(DATASET, path=str(folder), source_sha256=files_sha256(source.iterdir()))


def note(home: Home, dataset: Dataset, tokenizer_sha256: str = BASE.tokenizer_sha256) -> None:
    digest = file_sha256(dataset.validation_file)
    write_record(home, DatasetRecord(dataset, replace(BASE, tokenizer_sha256=tokenizer_sha256), digest, "2026-11-30"))


def test_another_machine_gets_the_validation_rows_and_the_source(
    registry: Registry, dataset: Dataset, source: Path
) -> None:
    version = register_with_dataset(registry.client, registry.home, dataset, source, registry.name)
    there = registry.elsewhere(2)
    fetched = fetch_dataset(there.client, version, there.home)
    assert fetched == replace(dataset, path=fetched.path)
    assert Path(fetched.path).parent == there.home.datasets
    assert fetched.validation_file.read_bytes() == b"validation rows"
    assert sorted(file.name for file in Path(fetched.path).iterdir()) == ["dataset.json", "validation.parquet"]

    with downloaded_source(there.client, version, there.home) as (sha256, files):
        assert sha256 == dataset.source_sha256 == files_sha256(files)
        assert {file.name: file.read_bytes() for file in files} == {
            file.name: file.read_bytes() for file in source.iterdir()
        }
    assert not list(there.home.root.glob(".download*"))


def test_a_version_without_a_dataset_is_told(registry: Registry) -> None:
    version = registry.register(b"weights")[0]
    with pytest.raises(NotFound, match=r"has no dataset e{12} in the registry"):
        fetch_dataset(registry.client, version, registry.home)
    with (
        pytest.raises(NotFound, match="has no dataset"),
        downloaded_source(registry.client, version, registry.home),
    ):
        pass
    assert not list(registry.home.datasets.glob("*"))


@pytest.fixture
def sqlite(home: Home) -> Registry:
    return Registry(home, "bot")


@pytest.fixture
def version(sqlite: Registry, dataset: Dataset, source: Path) -> Version:
    return register_with_dataset(sqlite.client, sqlite.home, dataset, source, sqlite.name)


def artifacts(version: Version) -> Path:
    """The dataset's folder among the run's artifacts."""
    return Path(version.source).parents[2] / "datasets" / version.manifest.dataset_sha256[:16]


def test_what_this_home_prepared_is_taken_as_it_is(sqlite: Registry, version: Version, dataset: Dataset) -> None:
    note(sqlite.home, dataset)
    assert fetch_dataset(sqlite.client, version, sqlite.home) == dataset


def test_rows_that_were_prepared_here_for_another_base_or_changed_are_not_taken(
    sqlite: Registry, version: Version, dataset: Dataset
) -> None:
    note(sqlite.home, dataset, tokenizer_sha256="0" * 64)
    fetched = fetch_dataset(sqlite.client, version, sqlite.home)
    assert fetched.path != dataset.path

    note(sqlite.home, dataset)
    dataset.validation_file.write_bytes(b"changed since")
    assert fetch_dataset(sqlite.client, version, sqlite.home) == fetched


def test_a_fetched_copy_needs_no_registry_and_a_damaged_one_is_fetched_again(
    sqlite: Registry, version: Version
) -> None:
    fetched = fetch_dataset(sqlite.client, version, sqlite.home)
    rows = artifacts(version) / "validation.parquet"
    away = rows.rename(rows.with_name("away"))
    assert fetch_dataset(sqlite.client, version, sqlite.home) == fetched

    fetched.validation_file.write_bytes(b"damaged")
    away.rename(rows)
    assert fetch_dataset(sqlite.client, version, sqlite.home) == fetched
    assert fetched.validation_file.read_bytes() == b"validation rows"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("validation.parquet", b"damaged"),
        ("validation.parquet", None),
        ("dataset.json", b"{}"),
        ("dataset.json", b'{"dataset": '),
    ],
)
def test_a_damaged_artifact_is_refused_and_leaves_nothing(
    sqlite: Registry, version: Version, file: str, content: bytes | None
) -> None:
    damaged = artifacts(version) / file
    damaged.write_bytes(content) if content is not None else damaged.unlink()
    with pytest.raises(ArtifactDamaged, match="is damaged"):
        fetch_dataset(sqlite.client, version, sqlite.home)
    assert not list(sqlite.home.datasets.iterdir())


def test_another_datasets_reference_is_refused(
    sqlite: Registry, version: Version, dataset: Dataset, source: Path
) -> None:
    other = replace(dataset, sha256="1" * 64)
    second = register_with_dataset(sqlite.client, sqlite.home, other, source, sqlite.name, b"other weights")
    (artifacts(second) / "dataset.json").write_bytes((artifacts(version) / "dataset.json").read_bytes())
    with pytest.raises(ArtifactDamaged, match="does not describe it"):
        fetch_dataset(sqlite.client, second, sqlite.home)
