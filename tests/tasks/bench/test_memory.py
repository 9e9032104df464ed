"""What a process takes, and what models take as loaded, against what is computed."""

import mmap
from pathlib import Path

import pytest

from serving.capacity.shapes import file_shapes
from serving.capacity.weights import parameters, weights_bytes
from tasks.bench.footprint import mapped_bytes, resident_bytes
from tasks.bench.loaded import Loaded, LoadJob
from tasks.bench.memory import KINDS
from tasks.children import run_module
from tests.tasks.toy import make_base
from turnout.references import Base, from_json, to_json

_SIZE = 64 * 2**20


def load(base: Base, kind: str, folder: Path) -> Loaded:
    job = from_json(LoadJob, {"format": kind, "path": base.path})
    return from_json(Loaded, run_module("tasks.bench.loaded", to_json(job), folder / kind))


def test_memory_that_is_used_counts() -> None:
    before = resident_bytes()
    block = bytearray(b"x") * _SIZE
    assert resident_bytes() - before > 0.9 * len(block)


def test_pages_of_a_mapped_file_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "weights.mapped"
    file.write_bytes(b"x" * _SIZE)
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert len(mapped[:: mmap.PAGESIZE]) == _SIZE // mmap.PAGESIZE
        assert mapped_bytes(".mapped") > 0.9 * _SIZE
        assert mapped_bytes(".other") == 0


def test_every_format_has_a_computed_size(tmp_path: Path) -> None:
    shapes, _ = file_shapes(Path(make_base(tmp_path / "base").path))
    sizes = {kind.configuration: weights_bytes(shapes, kind.precision) for kind in KINDS}
    assert sizes["transformers float32"] == 2 * sizes["transformers bfloat16"] == 4 * parameters(shapes)
    assert sizes["bitsandbytes NF4"] < sizes["transformers float16"]
    assert sizes["llama.cpp Q4_K_M"] < sizes["llama.cpp f16"]


@pytest.mark.e2e
@pytest.mark.slow
def test_tensors_as_loaded_take_what_is_computed(tmp_path: Path) -> None:
    base = make_base(tmp_path / "base")
    shapes, _ = file_shapes(Path(base.path))
    for kind in ("float32", "bfloat16"):
        loaded = load(base, kind, tmp_path)
        assert loaded.weights == weights_bytes(shapes, kind)
        assert loaded.parameters == parameters(shapes)
        assert loaded.measured > 0
    four_bit = load(base, "nf4", tmp_path)
    assert four_bit.parameters == parameters(shapes)
    assert four_bit.weights < load(base, "float32", tmp_path).weights
