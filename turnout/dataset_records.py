"""What one home remembers of each dataset version: how it was made, and where its prepared rows lie."""

from dataclasses import dataclass

from turnout.files import read_state, write_json
from turnout.paths import Home
from turnout.references import Base, Dataset, to_json


@dataclass(frozen=True)
class DatasetRecord:
    """A dataset version that was prepared here.

    `dataset` is how it was prepared last, with the tokens of `base`; `validation_sha256` is its validation file's
    digest, `created` the time (UTC) at which these rows were prepared here first.
    """

    dataset: Dataset
    base: Base
    validation_sha256: str
    created: str


def read_record(home: Home, sha256: str) -> DatasetRecord | None:
    """The record of the dataset version `sha256`; None where it was not prepared here."""
    return read_state(home.dataset_versions / f"{sha256}.json", DatasetRecord)


def read_records(home: Home) -> list[DatasetRecord]:
    """All records, oldest first."""
    files = sorted(home.dataset_versions.glob("*.json"))
    records = [record for file in files if (record := read_state(file, DatasetRecord))]
    return sorted(records, key=lambda record: record.created)


def write_record(home: Home, record: DatasetRecord) -> None:
    write_json(home.dataset_versions / f"{record.dataset.sha256}.json", to_json(record))
