import multiprocessing
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient

from registry import aliases, versions
from registry.runs import open_run
from registry.store import connect
from tests.registry.material import NAME, make_adapter, make_manifest, register_one
from turnout.errors import ArtifactDamaged, NotFound
from turnout.paths import Home
from turnout.references import from_json, to_json

# Children are forked, so that they need no second import of MLflow; the parent holds no connection to their database.
fork = multiprocessing.get_context("fork")


def test_the_same_adapter_never_becomes_two_versions(client: MlflowClient, home: Home) -> None:
    first = register_one(client, home)
    assert register_one(client, home) == first
    second = register_one(client, home, weights=b"others")
    assert (first.number, second.number) == (1, 2)
    assert versions.find_by_sha256(client, NAME, second.manifest.adapter_sha256) == second
    assert versions.find_by_sha256(client, NAME, "0" * 64) is None
    assert versions.get_version(client, NAME, 1) == first and first.served_name == f"{NAME}-v1"
    assert versions.list_versions(client, NAME) == [first, second]
    assert from_json(versions.Version, to_json(first)) == first


def test_a_version_shows_its_losses_and_aliases(client: MlflowClient, home: Home) -> None:
    version = register_one(client, home)
    versions.set_candidate(client, NAME, version.number)
    versions.tag_version(client, NAME, version.number, {"served_eval_loss": 1.91})
    (row,) = aliases.version_rows(client, NAME)
    assert row["aliases"] == ["candidate"] and row["eval_loss"] == 1.9 and row["base_eval_loss"] == 5.2
    assert versions.get_version(client, NAME, 1).tags["served_eval_loss"] == "1.91"
    assert "**1.9000**" in client.get_model_version(NAME, "1").description
    paths = [file.path for file in client.list_artifacts(version.run_id, version.source.partition("/artifacts/")[2])]
    assert sorted(Path(path).name for path in paths) == ["adapter_config.json", "adapter_model.safetensors"]


def test_training_again_in_the_same_run_leaves_the_first_version_whole(client: MlflowClient, home: Home) -> None:
    run_id = open_run(client, NAME, "one-key", home=home)
    sources = set()
    for weights in (b"first", b"second"):
        adapter = make_adapter(home.root / "trained", weights)
        sources.add(versions.register(client, NAME, adapter, make_manifest(adapter), run_id, home=home).source)
    assert len(sources) == 2


def test_what_is_not_there_is_told_with_what_is(client: MlflowClient, home: Home) -> None:
    with pytest.raises(NotFound, match="known: none"):
        versions.list_versions(client, NAME)
    register_one(client, home)
    register_one(client, home, "zebra")
    client.create_registered_model("not-of-turnout")
    with pytest.raises(NotFound, match="known: incident-bot, zebra"):
        versions.get_version(client, "incident-bto", 1)
    with pytest.raises(NotFound, match="has no version 7; registered: v1"):
        versions.get_version(client, NAME, 7)


def test_versions_that_others_made_are_left_alone(client: MlflowClient, home: Home) -> None:
    register_one(client, home)
    client.create_model_version(NAME, "/elsewhere")
    assert [version.number for version in versions.list_versions(client, NAME)] == [1]
    with pytest.raises(NotFound, match="has no version 2"):
        versions.get_version(client, NAME, 2)


def test_an_edited_manifest_is_an_error_that_says_how_to_mend_it(client: MlflowClient, home: Home) -> None:
    register_one(client, home)
    client.set_model_version_tag(NAME, "1", "manifest", "{}")
    with pytest.raises(ArtifactDamaged, match="cannot be read") as caught:
        versions.get_version(client, NAME, 1)
    assert "manifest.json" in caught.value.next_step


def test_files_changed_after_training_are_not_registered(client: MlflowClient, home: Home) -> None:
    adapter = make_adapter(home.root / "trained")
    manifest = make_manifest(adapter)
    Path(adapter.path, "adapter_model.safetensors").write_bytes(b"changed")
    with pytest.raises(ArtifactDamaged, match=manifest.adapter_sha256):
        versions.register(client, NAME, adapter, manifest, open_run(client, NAME, "key", home=home), home=home)
    assert not client.search_model_versions(f"name = '{NAME}'")


def test_a_long_list_is_read_to_its_end(client: MlflowClient, home: Home) -> None:
    version = register_one(client, home)
    tags = client.get_model_version(NAME, "1").tags
    for number in range(2, 125):
        sha256 = f"{number:064x}"
        manifest = version.manifest.model_copy(update={"adapter_sha256": sha256})
        ours = {**tags, "adapter_sha256": sha256, "manifest": manifest.model_dump_json()}
        client.create_model_version(NAME, version.source, version.run_id, tags=ours)
    assert [each.number for each in versions.list_versions(client, NAME)] == list(range(1, 125))


def register_in_child(home: Home, weights: bytes, lock_home: Home) -> None:
    client = connect(home)
    adapter = make_adapter(home.root / str(os.getpid()), weights)
    run_id = open_run(client, NAME, str(os.getpid()), home=lock_home)
    versions.register(client, NAME, adapter, make_manifest(adapter), run_id, home=lock_home)


@pytest.mark.parametrize("locks", ["shared", "apart"])
def test_four_at_once_end_in_one_version(home: Home, locks: str) -> None:
    """With locks apart they are as four machines on one registry: only the numbers decide."""
    homes = [home if locks == "shared" else Home(home.root / f"machine{index}") for index in range(4)]
    children = [fork.Process(target=register_in_child, args=(home, b"same", each)) for each in homes]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0, 0, 0]
    found = connect(home).search_model_versions(f"name = '{NAME}'")
    assert len(found) == 1


def test_killed_at_any_moment_then_run_again_there_is_one_version(home: Home) -> None:
    weights = [bytes([index]) * 3_000_000 for index in range(8)]
    for index, content in enumerate(weights):
        child = fork.Process(target=register_in_child, args=(home, content, home))
        child.start()
        assert child.pid is not None
        time.sleep(0.04 * (index + 1))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    # The parent must not inherit a connection to its children, so it opens the database only now.
    client = connect(home)
    for content in weights:
        register_one(client, home, weights=content)
    digests = [found.tags["adapter_sha256"] for found in client.search_model_versions(f"name = '{NAME}'")]
    assert len(digests) == len(set(digests)) == len(weights)
    shutil.rmtree(home.root)
