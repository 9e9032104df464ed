"""Files of llama.cpp, made once and whole or not at all."""

import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from serving.config import Quantisation
from serving.llama_cpp.gguf import ensure_gguf
from serving.llama_cpp.quantise import FTYPES
from turnout.errors import EngineError, ResourceShort
from turnout.paths import cache
from turnout.references import Base

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
LADDER: tuple[Quantisation, ...] = ("f16", "Q8_0", "Q5_K_M", "Q4_K_M", "Q4_0")


@contextmanager
def files_no_larger_than(count: int) -> Iterator[None]:
    """What a disk that runs full does to a converter, as near as a test can come."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def folders(home: Path) -> list[Path]:
    return [path for path in (home / "gguf").iterdir() if path.is_dir()]


def test_every_format_is_smaller_than_the_one_before_it(base: Base) -> None:
    assert set(LADDER) | {"bf16"} == set(get_args(Quantisation)) and set(LADDER) - {"f16"} == set(FTYPES)
    files = [ensure_gguf(cache(), base, quantisation) for quantisation in LADDER]
    sizes = [file.stat().st_size for file in files]
    assert sizes == sorted(set(sizes), reverse=True)
    assert all(file.read_bytes()[:4] == b"GGUF" for file in files)


def test_a_conversion_that_breaks_off_leaves_nothing_and_is_done_again(base: Base, tmp_path: Path) -> None:
    source = ensure_gguf(cache(), base, "f16")
    shutil.copytree(source.parent, tmp_path / "gguf" / source.parent.name, copy_function=os.link)
    with files_no_larger_than(20_000_000), pytest.raises(ResourceShort, match="disk is full"):
        ensure_gguf(tmp_path, base, "Q4_0")
    assert folders(tmp_path) == [tmp_path / "gguf" / source.parent.name]
    assert ensure_gguf(tmp_path, base, "Q4_0").stat().st_size < source.stat().st_size


def test_a_base_that_llama_cpp_does_not_know_leaves_nothing(base: Base, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "config.json").write_text('{"architectures": ["NobodyForCausalLM"], "model_type": "nobody"}')
    with pytest.raises(EngineError, match="NobodyForCausalLM"):
        ensure_gguf(tmp_path, replace(base, path=str(folder), sha256="0" * 64), "f16")
    assert folders(tmp_path) == []
