import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.base_folder import chat_template, check_folder, describe, eos_ids, weight_files
from tasks.bases import parity_folder, quick_check_base, resolve_base
from tests.tasks.toy import make_base
from turnout.errors import BadInput


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNOUT_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", ["./absent", "../absent", "~/absent-base", "/absent/base", "a/b/c", "absent/", "x y"])
def test_a_path_that_is_not_there_is_not_taken_for_a_hub_id(name: str) -> None:
    with pytest.raises(BadInput, match="there is no such folder"):
        quick_check_base(name)


def test_a_file_is_no_base(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.touch()
    with pytest.raises(BadInput, match="is a file"):
        resolve_base(str(file))


def test_what_a_folder_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(BadInput, match=r"lacks weights .*; a tokenizer .*; a chat template"):
        quick_check_base(str(tmp_path))


def test_a_missing_shard_is_missing_weights(tmp_path: Path) -> None:
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "model-1.safetensors").touch()
    assert weight_files(tmp_path) == []
    (tmp_path / "model-2.safetensors").touch()
    assert [file.name for file in weight_files(tmp_path)] == ["model-1.safetensors", "model-2.safetensors"]


def test_a_hub_id_out_of_reach_is_refused_in_seconds() -> None:
    code = "from tasks.bases import quick_check_base; quick_check_base('nobody/nothing-1b')"
    started = time.monotonic()
    for offline in ("1", "0"):
        env = os.environ | {"HF_HUB_OFFLINE": offline, "HF_ENDPOINT": "http://127.0.0.1:9"}
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
        assert "BadInput" in ended.stderr and "not in the hub's local cache" in ended.stderr, ended.stderr
        assert ("HF_HUB_OFFLINE is set" if offline == "1" else "out of reach") in ended.stderr
        assert "base: bundled" in ended.stderr
    assert time.monotonic() - started < 20


def test_a_folder_is_described_by_its_digests(tmp_path: Path) -> None:
    base = make_base(tmp_path / "toy")
    assert resolve_base(str(tmp_path / "toy")) == describe(tmp_path / "toy", base_id="toy", name="toy")
    assert base.eos_ids == (256,)
    check_folder(Path(base.path))

    (tmp_path / "toy" / "config.json").write_text('{"eos_token_id": [1, 2]}')
    changed = describe(tmp_path / "toy", base_id="toy", name="toy")
    assert changed.sha256 != base.sha256
    assert changed.tokenizer_sha256 == base.tokenizer_sha256
    assert eos_ids(tmp_path / "toy") == (1, 2, 256)
    assert parity_folder(changed) != parity_folder(base) != parity_folder(base, double_quantisation=False)


def test_an_unchanged_file_is_not_hashed_again(tmp_path: Path) -> None:
    base = make_base(tmp_path / "toy")
    weights = tmp_path / "toy" / "model.safetensors"
    stamp = weights.stat()
    weights.write_bytes(b"\0" * stamp.st_size)
    os.utime(weights, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert describe(tmp_path / "toy", base_id="x", name="x").sha256 == base.sha256
    os.utime(weights)
    assert describe(tmp_path / "toy", base_id="x", name="x").sha256 != base.sha256


def test_named_templates_give_the_default_one(tmp_path: Path) -> None:
    templates = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": templates}))
    assert chat_template(tmp_path) == "d"


@pytest.mark.e2e
@pytest.mark.slow
def test_the_bundled_base_is_made_once_by_two_at_a_time(tmp_path: Path) -> None:
    code = "from tasks.bases import resolve_base; print(resolve_base('bundled'))"
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (process.communicate(timeout=300)[0] for process in both)
    assert first == second != ""
    folders = [entry for entry in (tmp_path / "cache" / "bases").iterdir() if (entry / "config.json").is_file()]
    assert len(folders) == 1
    assert resolve_base("bundled").eos_ids == (2,)
