"""A way to write dataset files, and the bundled base's tokenizer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data.tokens import load_tokenizer
from tasks.bases import resolve_base
from turnout.references import Base

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write bytes, text or JSONL rows to a file in a folder of the test's own."""

    def to_file(name: str, content: bytes | str | list[Any]) -> Path:
        path = tmp_path / name
        if isinstance(content, list):
            content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return to_file


@pytest.fixture(scope="session")
def base() -> Base:
    return resolve_base("bundled")


@pytest.fixture(scope="session")
def loaded_tokenizer(base: Base) -> Any:
    return load_tokenizer(base.path)


@pytest.fixture
def tokenizer(loaded_tokenizer: Any) -> Any:
    """The bundled base's tokenizer; a test may change its chat template."""
    template = loaded_tokenizer.chat_template
    yield loaded_tokenizer
    loaded_tokenizer.chat_template = template
