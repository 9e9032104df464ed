"""Which adapters llama.cpp serves as they were trained."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from serving.llama_cpp.engine import adapter_scale
from turnout.errors import LoadRefused, NotFound


def adapter(folder: Path, **config: Any) -> Path:
    (folder / "adapter_config.json").write_text(json.dumps({"r": 16, "lora_alpha": 32, **config}))
    (folder / "adapter_model.safetensors").write_bytes(b"")
    return folder


def test_rank_stabilised_adapters_get_their_scale(tmp_path: Path) -> None:
    assert adapter_scale(adapter(tmp_path), 16) == 1.0
    assert adapter_scale(adapter(tmp_path, use_rslora=True), 16) == math.sqrt(16)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"r": 32}, "rank 32.*up to 16"),
        ({"use_dora": True}, "use_dora"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"alpha_pattern": {"q_proj": 3}}, "alpha_pattern"),
        ({"bias": "all"}, "bias"),
        ({"r": None}, "not an adapter's config"),
    ],
)
def test_what_would_be_left_out_is_refused(tmp_path: Path, config: dict[str, Any], reason: str) -> None:
    with pytest.raises(LoadRefused, match=reason):
        adapter_scale(adapter(tmp_path, **config), 16)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"adapter_config\.json"):
        adapter_scale(tmp_path, 16)
