"""What only a server can do: keep artifacts for its clients, lose answers, lose its database for a while."""

import shutil

import pytest

from registry import runs, versions
from registry.adapters import fetch
from registry.releases import append, read_log
from registry.store import connect
from tests.registry.backends import Postgres, Server
from tests.registry.conftest import Registry
from tests.registry.lossy import losing_answers
from tests.registry.material import DATASET
from tests.registry.processes import in_processes, meet
from turnout.errors import ArtifactDamaged, NotFound, RegistryUnavailable

pytestmark = pytest.mark.slow


def test_a_version_goes_through_the_server_and_back(remote: Registry, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotFound):
        versions.list_versions(remote.client, "nobody")
    (version,) = remote.register(b"weights")
    assert remote.register(b"weights") == [version]
    runs.link_dataset(remote.client, version.run_id, DATASET)
    runs.log_params(remote.client, version.run_id, {"train": {"lora_rank": 8}})
    runs.finish_run(remote.client, version.run_id)
    folder = fetch(remote.client, version, remote.home)
    assert (folder / "adapter_model.safetensors").read_bytes() == b"weights"
    assert not remote.home.mlflow_database.exists() and not remote.home.mlflow_artifacts.exists()
    assert capfd.readouterr() == ("", "")


def test_an_artifact_that_the_server_lost_is_told(remote: Registry, server: Server) -> None:
    (version,) = remote.register(b"lost")
    (stored,) = server.artifacts.glob(f"*/{version.run_id}/artifacts/versions/*")
    shutil.rmtree(stored)
    with pytest.raises(ArtifactDamaged, match="gone from the registry"):
        fetch(remote.client, version, remote.home)


def register_at_once(machine: Registry) -> int:
    connect(machine.home)
    meet()
    return machine.register(b"the same")[0].number


def test_four_machines_at_once_end_in_one_version(remote: Registry) -> None:
    numbers = in_processes(register_at_once, [remote.elsewhere(index) for index in range(4)])
    (version,) = versions.list_versions(remote.client, remote.name)
    assert numbers == [version.number] * 4
    assert len(remote.client.search_model_versions(f"name = '{remote.name}'")) == 1


@pytest.mark.parametrize("times", [1, 3], ids=["sent-again-by-mlflow", "looked-for-in-the-log"])
def test_an_event_whose_answer_was_lost_is_found_again(
    remote: Registry, server: Server, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.register(b"one")
    append(remote.client, remote.name, kind="promote", champion=1, parent=0)
    with losing_answers(server.url, "/model-versions/create", times) as proxy:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", proxy)
        event = append(connect(remote.home), remote.name, kind="promote", champion=1, parent=1, reason="again")
    log = read_log(remote.client, remote.name)
    assert event == log[1] and [each.effective for each in log] == [True, True] + [False] * (len(log) - 2)
    assert len(log) == 1 + max(times, 2) and {each.id for each in log[1:]} == {event.id}


@pytest.mark.parametrize("server", ["postgres_server"], indirect=True)
def test_releases_go_on_when_postgresql_is_back(remote: Registry, database: Postgres) -> None:
    remote.register(b"one")
    append(remote.client, remote.name, kind="promote", champion=1, parent=0)
    database.control("stop")
    try:
        with pytest.raises(RegistryUnavailable):
            append(remote.client, remote.name, kind="rollback", champion=1, parent=1)
    finally:
        database.control("start")
    assert append(remote.client, remote.name, kind="promote", champion=1, parent=1).number == 2
    assert [event.kind for event in read_log(remote.client, remote.name)] == ["promote", "promote"]
