"""sha256 digests of files, folders and JSON values."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def canonical_json(value: Any) -> str:
    """The one text of a JSON value: sorted keys, no spaces, UTF-8 kept as it is."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def json_sha256(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def file_sha256(path: Path | str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_sha256(files: Iterable[Path]) -> str:
    """sha256 over the sorted (name, sha256) pairs of `files`; their folders do not count."""
    return json_sha256(sorted((file.name, file_sha256(file)) for file in files))


ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
"""What of a trainer's output is an adapter; the rest, a pickle among it, is never registered or served."""


def adapter_files(folder: Path) -> list[Path]:
    return [folder / name for name in ADAPTER_FILES]


def adapter_sha256(folder: Path) -> str:
    """The digest that names an adapter everywhere. Raises OSError where one of its files cannot be read."""
    return files_sha256(adapter_files(folder))
