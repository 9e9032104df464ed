# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""`turnout data list`, `diff` and `checkout` as commands; the registry is real."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from data.source import source_sha256
from data.versions import keep_version
from tests.conftest import Turnout
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import BASE, DATASET, register_with_dataset
from turnout.paths import Home


def row(prompt: str, answer: str) -> str:
    return json.dumps({"instruction": prompt, "output": answer}, ensure_ascii=False) + "\n"


@pytest.fixture
def known(client: MlflowClient, home: Home, tmp_path: Path) -> Turnout:
    """A home that knows the dataset version eeee…, on which bot-v1 was trained."""
    file, folder = tmp_path / "rows.jsonl", tmp_path / "prepared"
    file.write_text(row("one", "1") + row("원인?", "메모리") + row("three", "3"), "utf-8")
    folder.mkdir()
    (folder / "validation.parquet").write_bytes(b"rows")
    dataset = replace(DATASET, path=str(folder), source=file.name, source_sha256=source_sha256(file))
    keep_version(home, dataset, file, BASE)
    register_with_dataset(client, home, dataset, file, "bot")
    return Turnout(home, tmp_path)


@pytest.mark.slow
def test_versions_are_listed_compared_and_checked_out(known: Turnout) -> None:
    listed = known("data", "list", "--json").json
    assert listed["problems"] == []
    assert [(each["version"], each["source"], each["trained"]) for each in listed["datasets"]] == [
        ("e" * 12, "rows.jsonl", ["bot-v1"])
    ]
    assert {"sha256", "format", "rows", "train_rows", "validation_rows", "created"} <= listed["datasets"][0].keys()

    edited = known.folder / "edited.jsonl"
    edited.write_text(row("one", "1") + row("원인?", "디스크") + row("four", "4") + row("five", "5"), "utf-8")
    found = known("data", "diff", "bot-v1", "edited.jsonl", "--json").json
    assert [found[kind] for kind in ("added", "removed", "changed", "unchanged")] == [2, 1, 1, 1]
    assert found["examples"]["changed"] == [{"prompt": "원인?", "before": "메모리", "after": "디스크"}]
    shown = known("data", "diff", "rows.jsonl", "edited.jsonl").out
    assert "2 added, 1 removed, 1 changed, 1 unchanged" in shown and "메모리" in shown and "디스크" in shown

    done = known("data", "checkout", "eeee", "again.jsonl", "--json").json
    assert Path(done["path"]).read_bytes() == (known.folder / "rows.jsonl").read_bytes()


def test_an_empty_home_says_so(turnout: Turnout) -> None:
    assert turnout("data", "list", "--json").json == {"datasets": [], "problems": []}
    assert "turnout run" in turnout("data", "list").out
    unknown = turnout("data", "checkout", "abcd", "rows.jsonl", "--json")
    assert unknown.code == 2 and "no dataset version 'abcd'" in unknown.json["error"]["message"]
    assert not turnout.home.root.exists()


def test_a_group_without_a_command_shows_its_help(turnout: Turnout) -> None:
    outcome = turnout("data")
    assert outcome.code == 2 and "checkout" in outcome.out and outcome.err == ""
