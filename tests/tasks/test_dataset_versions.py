# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""Dataset versions from the prepare stage to another machine's checkout; tokenizer and MLflow are real."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from data.checks.config import Check, ChecksConfig
from data.config import DataConfig
from data.source import source_sha256
from data.versions import check_out, kept_source
from registry.datasets import fetch_dataset
from tasks.dataset_versions import fetch_source, find_dataset_version, list_dataset_versions, source_of
from tasks.steps import prepare
from tests.data.conftest import Write, base, write
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import BASE, DATASET, register_one, register_with_dataset
from turnout.dataset_records import DatasetRecord, write_record
from turnout.errors import ArtifactDamaged, BadInput, DataError, NotFound, RegistryUnavailable
from turnout.paths import Home
from turnout.references import Base, Dataset

Prepare = Callable[[Path], Dataset]


def rows(count: int) -> list[dict[str, str]]:
    return [{"instruction": f"Analyse error {number}", "output": f"Cause: {number}."} for number in range(count)]


@pytest.fixture
def prepared(base: Base, home: Home) -> Prepare:
    return lambda path: prepare(DataConfig(path=str(path)), base)


def register(client: MlflowClient, home: Home, dataset: Dataset, weights: bytes = b"weights") -> None:
    source = kept_source(home, dataset.source_sha256)
    assert source is not None
    register_with_dataset(client, home, dataset, source, "bot", weights)


def elsewhere(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Another machine's home, on the same registry."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home.mlflow_database}")
    return Home(home.root.with_name("elsewhere"))


def test_preparing_keeps_the_source_and_names_the_version(home: Home, prepared: Prepare, write: Write) -> None:
    path = write("rows.jsonl", rows(8))
    dataset = prepared(path)
    assert dataset.source_sha256 == source_sha256(path)
    assert prepared(path) == dataset

    bigger = prepared(write("rows.jsonl", rows(9)))
    versions, problems = list_dataset_versions(home)
    assert not problems
    assert {version.sha256 for version in versions} == {dataset.sha256, bigger.sha256}
    listed = [version.to_row() for version in versions]
    assert {(row["source"], row["rows"], row["here"]) for row in listed} == {
        ("rows.jsonl", 8, True),
        ("rows.jsonl", 9, True),
    }

    source, sha256 = fetch_source(home, find_dataset_version(home, dataset.sha256[:12]))
    assert sha256 == dataset.source_sha256 and len(source.read_text("utf-8").splitlines()) == 8


def test_other_checks_look_again_and_give_the_same_rows(home: Home, base: Base, write: Write) -> None:
    path = str(write("rows.jsonl", [*rows(8), *rows(2)]))
    dataset = prepare(DataConfig(path=path), base)
    with pytest.raises(DataError, match="duplicates"):
        prepare(DataConfig(path=path, checks=ChecksConfig(duplicates=Check(action="refuse", above=0.1))), base)

    unchecked = prepare(DataConfig(path=path, checks=ChecksConfig(duplicates=Check(action="off"))), base)
    assert (unchecked.path, unchecked.sha256) == (dataset.path, dataset.sha256)
    assert len(list((home.stages / "prepare").glob("*.json"))) == 2


def test_what_was_kept_and_removed_is_kept_again_by_the_next_run(home: Home, prepared: Prepare, write: Write) -> None:
    path = write("rows.jsonl", rows(8))
    dataset = prepared(path)
    shutil.rmtree(home.sources)
    shutil.rmtree(home.dataset_versions)
    assert prepared(path) == dataset
    assert kept_source(home, dataset.source_sha256) is not None
    assert [version.sha256 for version in list_dataset_versions(home)[0]] == [dataset.sha256]


def test_another_machine_checks_out_what_an_adapter_was_trained_on(
    client: MlflowClient, home: Home, prepared: Prepare, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("rows.jsonl", rows(8))
    dataset = prepared(path)
    register(client, home, dataset)

    there = elsewhere(home, monkeypatch)
    found = find_dataset_version(there, "bot-v1")
    assert found.sha256 == dataset.sha256 and not found.to_row()["here"]
    assert (found.to_row()["rows"], found.to_row()["trained"]) == (8, ["bot-v1"])
    source, sha256 = fetch_source(there, found)
    assert check_out(source, sha256, tmp_path / "again.jsonl").read_bytes() == path.read_bytes()
    assert fetch_dataset(client, found.trained[0], there).validation_file.read_bytes() == (
        dataset.validation_file.read_bytes()
    )

    source.write_bytes(b"damaged")  # what is kept is verified, and fetched again
    assert fetch_source(there, found)[0].read_bytes() == path.read_bytes()


def test_a_registry_that_holds_other_bytes_is_told(
    client: MlflowClient, home: Home, prepared: Prepare, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(client, home, prepared(write("rows.jsonl", rows(8))))
    next(home.mlflow_artifacts.rglob("rows.jsonl")).write_text("damaged", "utf-8")
    there = elsewhere(home, monkeypatch)
    with pytest.raises(ArtifactDamaged, match="bot-v1 was trained on is damaged"):
        fetch_source(there, find_dataset_version(there, "bot-v1"))


def test_a_version_whose_source_is_nowhere_is_told(
    client: MlflowClient, home: Home, prepared: Prepare, write: Write
) -> None:
    dataset = prepared(write("rows.jsonl", rows(8)))
    shutil.rmtree(home.sources)
    with pytest.raises(NotFound, match="no longer kept here, and no adapter was trained on it"):
        fetch_source(home, find_dataset_version(home, dataset.sha256))

    register_one(client, home, "old")  # as an older Turnout did: without its dataset
    with pytest.raises(NotFound, match="old-v1 has no dataset"):
        fetch_source(home, find_dataset_version(home, "old-v1"))


def test_a_beginning_names_one_version_or_is_refused(home: Home) -> None:
    with pytest.raises(NotFound, match="there is none yet"):
        find_dataset_version(home, "abc")
    for start in ("aa", "ab"):
        dataset = replace(DATASET, sha256=start + "0" * 62)
        write_record(home, DatasetRecord(dataset, BASE, "", "2026-11-30T10:00:00+00:00"))
    assert find_dataset_version(home, "ab").sha256.startswith("ab0")
    with pytest.raises(BadInput, match="a fits aa0000000000, ab0000000000"):
        find_dataset_version(home, "a")
    with pytest.raises(NotFound, match="there are: aa0000000000, ab0000000000"):
        find_dataset_version(home, "ac")


def test_a_side_of_a_comparison_is_a_file_or_a_version(
    home: Home, prepared: Prepare, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("rows.jsonl", rows(8))
    dataset = prepared(path)
    assert source_of(home, str(path)) == (path, None)
    kept = kept_source(home, dataset.source_sha256)
    assert source_of(home, dataset.sha256[:12]) == (kept, dataset.sha256)

    monkeypatch.chdir(path.parent)
    shutil.copy(path, dataset.sha256[:12])  # a file of that name is what is meant
    assert source_of(home, dataset.sha256[:12]) == (Path(dataset.sha256[:12]), None)


def test_without_its_registry_a_home_lists_what_it_prepared(
    home: Home, prepared: Prepare, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = prepared(write("rows.jsonl", rows(8)))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    versions, problems = list_dataset_versions(home)
    assert [version.sha256 for version in versions] == [dataset.sha256]
    assert len(problems) == 1 and "out of reach" in problems[0]
    with pytest.raises(RegistryUnavailable, match=r"no dataset version 'abcd' is known: .* out of reach"):
        find_dataset_version(home, "abcd")
