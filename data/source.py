"""Finds the file that `data.path` means: a sample, a file here, or a dataset of the Hugging Face hub."""

import re
from pathlib import Path

from data.config import DataConfig
from turnout.errors import DataError
from turnout.paths import cache

_SAMPLES = Path(__file__).parent / "samples"
_HUB_ID = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
_FILE_SUFFIXES = {".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".pq"}


def samples() -> list[str]:
    return sorted(file.stem for file in _SAMPLES.glob("*.jsonl"))


def resolve(config: DataConfig) -> Path:
    """The file that holds the rows; a hub dataset is fetched into the cache first.

    Raises:
        DataError: there is no such sample, file or dataset, or the hub is out of reach.
    """
    if config.path.startswith("sample:"):
        return _sample(config.path.removeprefix("sample:"))
    path = Path(config.path).expanduser()
    if path.exists():
        return path
    if path.suffix.lower() in _FILE_SUFFIXES or not _HUB_ID.fullmatch(config.path):
        raise DataError(
            f"{config.path} is not there ({path.absolute()})",
            "Check data.path; it is relative to the current folder. A hub dataset is named owner/name.",
        )
    return _from_hub(config.path, config.split)


def source_name(config: DataConfig) -> str:
    """What a report calls the source: a sample, a hub id, or the file's name without its folder."""
    if config.path.startswith("sample:"):
        return config.path
    path = Path(config.path).expanduser()
    is_file = path.exists() or path.suffix.lower() in _FILE_SUFFIXES
    return path.name if is_file else config.path


def _sample(name: str) -> Path:
    if name not in samples():
        raise DataError(
            f"there is no sample {name!r}; there are: {', '.join(samples())}", "Set data.path to one of them."
        )
    return _SAMPLES / f"{name}.jsonl"


def _from_hub(dataset: str, split: str) -> Path:
    revision = _revision(dataset)
    name = f"{dataset.replace('/', '--')}@{revision[:12]}-{re.sub(r'[^A-Za-z0-9_.-]', '_', split)}.parquet"
    target = cache() / "datasets" / name
    if target.is_file():
        return target
    import datasets

    try:
        rows = datasets.load_dataset(dataset, split=split, revision=revision)
    except Exception as error:  # the library raises dozens of kinds, some of them its dependencies'
        raise DataError(
            f"the dataset {dataset} (split {split!r}) could not be loaded: {_first_line(error)}",
            "Check data.split, or download the file and set data.path to it.",
        ) from error
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    rows.to_parquet(str(partial))
    partial.replace(target)
    return target


def _revision(dataset: str) -> str:
    from huggingface_hub import HfApi

    try:
        return str(HfApi().dataset_info(dataset, timeout=4).sha)
    except Exception as error:  # HTTP, connection, authentication: each of its own library
        raise DataError(
            f"{dataset} is neither a file here ({Path(dataset).absolute()}) nor a dataset that the hub gives: "
            f"{_first_line(error)}",
            "Check data.path; where the hub is out of reach, download the file and set data.path to it.",
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]
