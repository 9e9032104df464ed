# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""Which rows of the champion's own there are to compare on; the registry is real."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from mlflow import MlflowClient

from registry.datasets import keep_dataset
from tasks.comparing import champions_rows
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import BASE, DATASET, register_one
from turnout.paths import Home
from turnout.references import Base

OTHER = replace(DATASET, sha256="1" * 64)


def test_the_same_dataset_is_not_measured_twice(client: MlflowClient, home: Home) -> None:
    own, note = champions_rows(register_one(client, home), DATASET, BASE)
    assert own is None and "same dataset" in note


@pytest.mark.parametrize("base", [replace(BASE, tokenizer_sha256="9" * 64), replace(BASE, template_sha256="9" * 64)])
def test_other_tokens_cannot_be_compared(client: MlflowClient, home: Home, base: Base) -> None:
    own, note = champions_rows(register_one(client, home), OTHER, base)
    assert own is None and "another tokenizer or chat template" in note


def test_a_dataset_that_was_not_kept_is_named(client: MlflowClient, home: Home) -> None:
    version = register_one(client, home)
    own, note = champions_rows(version, OTHER, BASE)
    assert own is None and DATASET.sha256[:12] in note


def test_the_champions_rows_come_from_the_registry(client: MlflowClient, home: Home, tmp_path: Path) -> None:
    version = register_one(client, home)
    kept = replace(DATASET, path=str(tmp_path))
    pyarrow.parquet.write_table(pa.table({"row_sha256": ["a"]}), kept.validation_file)
    (tmp_path / "rows.jsonl").write_text("{}\n", encoding="utf-8")
    keep_dataset(client, version.run_id, kept, tmp_path / "rows.jsonl")
    own, note = champions_rows(version, OTHER, BASE)
    assert own and own.validation_file.read_bytes() == kept.validation_file.read_bytes() and note == ""
