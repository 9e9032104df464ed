"""Which adapter a bench measures."""

import json
from pathlib import Path

import pytest

from tasks.bench.adapter import find_adapter
from turnout.digests import adapter_sha256
from turnout.errors import BadInput, NotFound
from turnout.paths import Home
from turnout.references import Base

_BASE = Base("base", "base", "/nowhere", "ab" * 32, "", "", (0,))


def adapter_folder(folder: Path, config: str) -> Path:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(config)
    (folder / "adapter_model.safetensors").write_bytes(b"weights")
    return folder


def test_a_folder_is_an_adapter_under_its_own_name(tmp_path: Path) -> None:
    folder = adapter_folder(tmp_path / "mine", json.dumps({"r": 8, "target_modules": ["q_proj"]}))
    found = find_adapter(Home(tmp_path / "home"), str(folder), _BASE)
    assert (found.name, found.rank, found.targets) == ("mine", 8, ("q_proj",))
    assert found.sha256 == adapter_sha256(folder)


def test_a_folder_without_an_adapter_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"adapter_config\.json, adapter_model\.safetensors is missing"):
        find_adapter(Home(tmp_path / "home"), str(tmp_path), _BASE)


@pytest.mark.parametrize("config", ["", "[]", '{"r": "many", "target_modules": []}'])
def test_a_damaged_configuration_is_told(tmp_path: Path, config: str) -> None:
    folder = adapter_folder(tmp_path / "mine", config)
    with pytest.raises(BadInput, match="not a LoRA adapter's configuration"):
        find_adapter(Home(tmp_path / "home"), str(folder), _BASE)


def test_an_unknown_name_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nobody"):
        find_adapter(Home(tmp_path / "home"), "nobody", _BASE)
