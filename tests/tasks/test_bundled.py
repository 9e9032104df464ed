import json
import struct
from pathlib import Path

import numpy as np
import pytest

from tasks.bundled import parameter_name, to_bfloat16, unpermute
from tasks.tensors_file import write_tensors


def test_bfloat16_is_rounded_to_nearest_even() -> None:
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF], dtype=np.uint32)
    assert to_bfloat16(bits.view(np.float32)).tolist() == [0x3F80, 0x3F82, 0x3F81, 0x3F80]


def test_unpermute_undoes_the_converter_of_llama_cpp() -> None:
    weight = np.arange(16).reshape(8, 2)
    permuted = weight.reshape(2, 2, 2, 2).swapaxes(1, 2).reshape(8, 2)  # what convert_hf_to_gguf.py does, two heads
    assert (unpermute(permuted, heads=2) == weight).all()


def test_names_are_those_of_transformers() -> None:
    assert parameter_name("token_embd.weight") == "model.embed_tokens.weight"
    assert parameter_name("blk.29.ffn_down.weight") == "model.layers.29.mlp.down_proj.weight"


def test_a_tensors_file_is_read_by_the_library(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    values = {"a": np.ones((2, 3), np.float32), "b": np.arange(4, dtype=np.float32)}
    write_tensors(tmp_path / "t", {name: ("F32", v.shape) for name, v in values.items()}, values.values())
    read = load_file(tmp_path / "t")
    assert all((read[name] == value).all() for name, value in values.items())
    (length,) = struct.unpack("<Q", (tmp_path / "t").read_bytes()[:8])
    assert length % 8 == 0 and json.loads((tmp_path / "t").read_bytes()[8 : 8 + length])["b"]["shape"] == [4]


def test_a_tensor_of_the_wrong_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="its shape asks for 16"):
        write_tensors(tmp_path / "t", {"a": ("BF16", (2, 4))}, [b"123"])
