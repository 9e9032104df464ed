"""Finds what `data.path` means: a sample, a file or folder here, or a dataset of the Hugging Face hub."""

import errno
import glob
import logging
import re
from functools import cache as once
from pathlib import Path

from data.config import DataConfig
from turnout.digests import file_sha256, files_sha256
from turnout.errors import DataError
from turnout.files import exclusive
from turnout.paths import cache

_log = logging.getLogger(__name__)

_SAMPLES = Path(__file__).parent / "samples"
_HUB_ID = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
_FILE_SUFFIXES = {".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".pq"}


def samples() -> list[str]:
    return sorted(file.stem for file in _SAMPLES.glob("*.jsonl"))


def resolve(config: DataConfig) -> Path:
    """The file that holds the rows, or the folder of such files; a hub dataset is fetched into the cache first.

    A process asks the hub once for a dataset, so a run works on one revision. While the hub is out of reach, the
    revision that was fetched last is used, and a warning logged.

    Raises:
        DataError: there is no such sample, file or dataset, or the hub is out of reach.
    """
    if config.path.startswith("sample:"):
        return _sample(config.path.removeprefix("sample:"))
    path = _local(config.path)
    if path.exists():
        return path
    if path.suffix.lower() in _FILE_SUFFIXES or not _HUB_ID.fullmatch(config.path):
        raise DataError(
            f"{config.path} is not there ({path.absolute()})",
            "Check data.path; it is relative to the current folder. A hub dataset is named owner/name.",
        )
    return _from_hub(config.path, config.split, cache() / "datasets")


def source_files(path: Path) -> list[Path]:
    """The files that hold a source's rows: `path` itself, or what a folder holds of data files, in name order.

    Hidden files, other suffixes and folders in the folder do not count.

    Raises:
        DataError: the folder holds no data file, or cannot be read.
    """
    if not path.is_dir():
        return [path]
    try:
        files = sorted(file for file in path.iterdir() if _holds_rows(file))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", "Check its permissions.") from None
    if not files:
        raise DataError(
            f"the folder {path} holds no data file ({', '.join(sorted(_FILE_SUFFIXES))})",
            "Put the files with the rows into it, or name another path.",
        )
    return files


def source_sha256(path: Path) -> str:
    """The digest of a source's bytes: a file's sha256, a folder's over the (name, sha256) pairs of its data files.

    Raises:
        DataError: the folder holds no data file, or a file cannot be read.
    """
    files = source_files(path)
    try:
        return files_sha256(files) if path.is_dir() else file_sha256(path)
    except OSError as error:
        raise DataError(
            f"{error.filename} cannot be read: {error.strerror}", "Check its name and its permissions."
        ) from None


def _holds_rows(file: Path) -> bool:
    return not file.name.startswith(".") and file.suffix.lower() in _FILE_SUFFIXES and file.is_file()


def source_name(config: DataConfig) -> str:
    """What a report calls the source: a sample, a hub id, or the file's or folder's name without what it lies in."""
    if config.path.startswith("sample:"):
        return config.path
    path = _local(config.path)
    is_local = path.exists() or path.suffix.lower() in _FILE_SUFFIXES
    return path.absolute().name if is_local else config.path


def _local(text: str) -> Path:
    if not text.strip():
        raise DataError("the path of the rows is empty", "Name a file, a folder, a hub dataset or sample:NAME.")
    try:
        path = Path(text).expanduser()
        path.exists()
    except (OSError, ValueError, RuntimeError) as error:  # too long, a null character, a user that is not known
        raise DataError(f"data.path={text!r} cannot be a path: {error}", "Check data.path.") from None
    return path


def _sample(name: str) -> Path:
    if name not in samples():
        raise DataError(
            f"there is no sample {name!r}; there are: {', '.join(samples())}", "Set data.path to one of them."
        )
    return _SAMPLES / f"{name}.jsonl"


@once
def _from_hub(dataset: str, split: str, folder: Path) -> Path:
    name, kind = dataset.replace("/", "--"), f"-{re.sub(r'[^A-Za-z0-9_.-]', '_', split)}.parquet"
    try:
        revision = _revision(dataset)
    except ConnectionError as error:
        kept = sorted(folder.glob(f"{glob.escape(name)}@{'?' * 12}{kind}"), key=lambda file: file.stat().st_mtime)
        if not kept:
            raise _not_there(dataset, error) from error
        _log.warning("The hub is out of reach (%s): %s as fetched before, %s", error, dataset, kept[-1])
        return kept[-1]
    target = folder / f"{name}@{revision[:12]}{kind}"
    with exclusive(folder / f".{target.name}.lock"):
        if not target.is_file():
            _fetch(dataset, split, revision, target)
    return target


def _fetch(dataset: str, split: str, revision: str, target: Path) -> None:
    import datasets

    partial = target.with_name(f".{target.name}.partial")
    try:
        datasets.load_dataset(dataset, split=split, revision=revision).to_parquet(str(partial))
    except Exception as error:  # the library raises dozens of kinds, some of them its dependencies'
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        raise DataError(
            f"the dataset {dataset} (split {split!r}) could not be loaded: {_first_line(error)}",
            "Check data.split, or download the file and set data.path to it.",
        ) from error
    partial.replace(target)


def _revision(dataset: str) -> str:
    """The commit that the dataset is at now.

    Raises:
        DataError: the hub does not give it.
        ConnectionError: the hub is out of reach.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        return str(HfApi().dataset_info(dataset, timeout=4).sha)
    except RepositoryNotFoundError as error:  # a gated one too
        raise _not_there(dataset, error) from error
    except Exception as error:  # which exceptions come depends on the HTTP library that huggingface_hub found
        raise ConnectionError(_first_line(error)) from error


def _not_there(dataset: str, error: Exception) -> DataError:
    return DataError(
        f"{dataset} is neither a file here ({Path(dataset).absolute()}) nor a dataset that the hub gives: "
        f"{_first_line(error)}",
        "Check data.path; where the hub is out of reach, download the file and set data.path to it.",
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]
