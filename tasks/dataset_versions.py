"""Dataset versions wherever they are: prepared in this home, or named by a registered adapter version."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.config import DataConfig
from data.source import resolve
from data.versions import keep_source, kept_source
from registry.datasets import downloaded_source
from registry.reach import never_used
from registry.store import connect
from registry.versions import Version, list_names, read_versions
from turnout.dataset_records import DatasetRecord, read_records
from turnout.errors import ArtifactDamaged, BadInput, DataError, NotFound, RegistryUnavailable
from turnout.paths import Home

SHORT = 12
"""Hexadecimal digits that a version is shown with; any unique beginning names it."""
_PREFIX = re.compile(r"[0-9a-f]{1,64}")


@dataclass(frozen=True)
class DatasetVersion:
    """A dataset version: its record, if this home prepared it, and the adapter versions that were trained on it."""

    sha256: str
    record: DatasetRecord | None
    trained: tuple[Version, ...]

    def to_row(self) -> dict[str, Any]:
        """The version as `turnout data list` shows it; format and source's digest only where it was prepared here."""
        dataset = self.record.dataset if self.record else None
        manifest = self.trained[0].manifest if self.trained else None
        counts = dataset or manifest
        assert counts is not None
        return {
            "version": self.sha256[:SHORT],
            "sha256": self.sha256,
            "source": dataset.source if dataset else manifest.dataset_source if manifest else "",
            "format": dataset.format if dataset else None,
            "rows": counts.rows,
            "train_rows": counts.train_rows,
            "validation_rows": counts.validation_rows,
            "source_sha256": dataset.source_sha256 if dataset else None,
            "created": self.record.created if self.record else manifest.created if manifest else "",
            "here": self.record is not None,
            "trained": [version.served_name for version in self.trained],
        }


def list_dataset_versions(home: Home) -> tuple[list[DatasetVersion], list[str]]:
    """All that are known, oldest first, and what kept others from being seen: a registry out of reach."""
    records = {record.dataset.sha256: record for record in read_records(home)}
    trained: defaultdict[str, list[Version]] = defaultdict(list)
    problems = []
    try:
        for version in _registered(home):
            trained[version.manifest.dataset_sha256].append(version)
    except RegistryUnavailable as error:
        problems.append(f"only what was prepared here is listed: {error.message}")
    found = [
        DatasetVersion(sha256, records.get(sha256), tuple(trained.get(sha256, ())))
        for sha256 in dict.fromkeys([*records, *trained])
    ]
    return sorted(found, key=lambda version: str(version.to_row()["created"])), problems


def find_dataset_version(home: Home, text: str) -> DatasetVersion:
    """The version whose digest begins with `text`, or that the adapter version `text`, such as bot-v2, was trained on.

    Raises:
        NotFound: there is none; BadInput: there are several.
        RegistryUnavailable: none was prepared here, and MLflow did not answer.
    """
    versions, problems = list_dataset_versions(home)
    found = [
        version
        for version in versions
        if (_PREFIX.fullmatch(text) and version.sha256.startswith(text))
        or text in (each.served_name for each in version.trained)
    ]
    if len(found) > 1:
        raise BadInput(f"{text} fits {_names(found)}", "Write more of its digits.")
    if not found and problems:
        raise RegistryUnavailable(f"no dataset version {text!r:.100} is known: {problems[0]}", "Run again when it is.")
    if not found:
        known = f"there are: {_names(versions)}" if versions else "there is none yet"
        raise NotFound(f"there is no dataset version {text!r:.100}; {known}", "See `turnout data list`.")
    return found[0]


def fetch_source(home: Home, version: DatasetVersion) -> tuple[Path, str]:
    """The kept source of a version and its digest; from the registry where this home does not have it.

    Raises:
        NotFound: it is kept neither here nor in the registry.
        ArtifactDamaged: the registry holds other bytes than were registered.
        RegistryUnavailable: MLflow did not answer.
    """
    if version.record is not None:
        sha256 = version.record.dataset.source_sha256
        if (source := kept_source(home, sha256)) is not None:
            return source, sha256
    failure = NotFound(
        f"the source of the dataset {version.sha256[:SHORT]} is no longer kept here, and no adapter was trained on it",
        "Prepare it again from the original file.",
    )
    for trained in reversed(version.trained):
        try:
            return _fetch(home, trained)
        except NotFound as error:  # an older Turnout registered that one
            failure = error
    raise failure


def source_of(home: Home, text: str) -> tuple[Path, str | None]:
    """What `text` means where rows are compared: a file, a folder, a sample, a hub dataset, or a dataset version.

    The second value is the version's digest, None for the others.

    Raises:
        NotFound, DataError: it is none of these.
    """
    if not Path(text).exists() and (_PREFIX.fullmatch(text) or re.search(r"^[a-z0-9-]+-v\d+$", text)):
        version = find_dataset_version(home, text)
        return fetch_source(home, version)[0], version.sha256
    return resolve(DataConfig(path=text)), None


def _registered(home: Home) -> list[Version]:
    if never_used(home):
        return []
    client = connect(home)
    return [version for name in list_names(client) for version in read_versions(client, name)[0]]


def _fetch(home: Home, trained: Version) -> tuple[Path, str]:
    with downloaded_source(connect(home), trained, home) as (sha256, files):
        try:
            keep_source(home, files, sha256)
        except DataError as error:
            raise ArtifactDamaged(
                f"the source that {trained.served_name} was trained on is damaged in the registry: {error.message}",
                f"restore the artifacts of run {trained.run_id} from a backup",
            ) from error
    source = kept_source(home, sha256)
    assert source is not None
    return source, sha256


def _names(versions: Sequence[DatasetVersion]) -> str:
    return ", ".join(version.sha256[:SHORT] for version in versions[-10:])
