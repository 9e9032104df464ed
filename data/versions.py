"""Dataset versions on this disk: the bytes that each was made of, once, and getting them back bit for bit."""

import errno
import os
import shutil
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from data.source import source_files
from turnout.dataset_records import DatasetRecord, read_record, write_record
from turnout.digests import file_sha256, files_sha256
from turnout.errors import BadInput, DataError, ResourceShort
from turnout.files import exclusive, new_folder
from turnout.paths import Home
from turnout.references import Base, Dataset


def keep_version(home: Home, dataset: Dataset, source: Path, base: Base) -> None:
    """Keep the bytes of `source`, that `dataset` was made of for `base`, and a record of the version.

    Where other bytes had given the same rows, theirs are kept too, and the record names the newer ones.

    Raises:
        DataError: the source was changed since its digest was taken.
    """
    try:
        keep_source(home, source_files(source), dataset.source_sha256)
    except DataError as error:
        raise changed_meanwhile(source) from error
    with exclusive(home.lock(f"dataset-{dataset.sha256}")):
        known = read_record(home, dataset.sha256)
        created = known.created if known else datetime.now(UTC).isoformat(timespec="seconds")
        now = DatasetRecord(dataset, base, file_sha256(dataset.validation_file), created)
        if now != known:
            write_record(home, now)


def changed_meanwhile(source: Path) -> DataError:
    return DataError(f"{source} was changed while it was read", "Run again when nothing writes to it.")


def keep_source(home: Home, files: Sequence[Path], sha256: str) -> None:
    """Copy `files` to where `kept_source` finds them, unless they are there.

    Raises:
        DataError: neither as a file nor as a folder of files do they have the digest `sha256`.
    """
    folder = home.sources / sha256
    with exclusive(home.lock(f"source-{sha256}")):
        if _content(folder, sha256) is not None:
            return
        with new_folder(folder) as new:
            for file in files:
                shutil.copyfile(file, new / file.name)
            if _content(new, sha256) is None:
                names = ", ".join(file.name for file in files)
                raise DataError(f"{names}: the content does not have the digest {sha256}", "Restore the content.")
            shutil.rmtree(folder, ignore_errors=True)


def kept_source(home: Home, sha256: str) -> Path | None:
    """The source with the digest `sha256`, a file or a folder as it was, its bytes verified; None if it is not here."""
    return _content(home.sources / sha256, sha256)


def check_out(source: Path, sha256: str, target: Path) -> Path:
    """Copy `source` to `target`, or into it where a file's target is a folder; returns the copy's absolute path.

    Nothing happens where that content is there already.

    Raises:
        BadInput: there is other content, or it cannot be written there.
        DataError: the copy does not have the digest `sha256`.
        ResourceShort: the disk is full.
    """
    target = target.absolute()
    try:
        return _copied(source, sha256, target)
    except OSError as error:
        if error.errno == errno.ENOSPC or "No space left" in str(error):  # of a folder's copy only the text says it
            raise ResourceShort(f"the disk that holds {target.parent} is full", "Free some, and run again.") from error
        raise BadInput(
            f"{target} cannot be written: {error.strerror or error}", "Name a place that you may write to."
        ) from error


def _copied(source: Path, sha256: str, target: Path) -> Path:
    if source.is_file() and target.is_dir():
        target = target / source.name
    if _is_content(target, sha256):
        return target
    if os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir())):
        raise BadInput(f"{target} holds other content", "Name a path that does not exist yet: nothing is overwritten.")
    if not target.parent.is_dir():
        raise BadInput(f"the folder {target.parent} does not exist", "Make it first.")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        copy = Path(folder) / target.name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, copy)
        if not _is_content(copy, sha256):
            raise DataError(f"the copy of {source} is not what was kept", "Check the disk, and run again.")
        copy.rename(target)
    return target


def _is_content(path: Path, sha256: str) -> bool:
    """Whether `path` is the source with that digest, and, if it is a folder, nothing else."""
    if not path.is_dir():
        return path.is_file() and file_sha256(path) == sha256
    files = list(path.iterdir())
    return bool(files) and all(file.is_file() for file in files) and files_sha256(files) == sha256


def _content(folder: Path, sha256: str) -> Path | None:
    """Of a folder of kept files, the single file or the folder itself, whichever has the digest."""
    files = list(folder.iterdir()) if folder.is_dir() else []
    candidates = [*files[:1], folder] if len(files) == 1 else [folder]
    return next((path for path in candidates if _is_content(path, sha256)), None)
