# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""`up` follows the release log, also in a home that never released anything."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from registry.releases import append
from registry.versions import Version, tag_version
from serving.config import ServingConfig
from serving.engines import remembered
from serving.records import serving_engines
from serving.routes import Routes, read_routes, update_routes
from serving.stack import down
from tasks.standing_up import stand_up
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME
from tests.serving.yard import known_base, new_version, settings
from turnout.errors import BadInput
from turnout.paths import Home
from turnout.references import Base

pytestmark = pytest.mark.usefixtures("no_registry_of_the_users")


@pytest.fixture(autouse=True)
def engines_end(home: Home) -> Iterator[None]:
    yield
    down(home)


def champion(
    client: MlflowClient, home: Home, base: Base, weights: bytes, name: str = NAME, parent: int = 0
) -> Version:
    version = new_version(client, home, weights, name)
    tag_version(client, name, version.number, {"served_base": base.name, "served_base_sha256": base.sha256})
    append(client, name, kind="promote", champion=version.number, parent=parent)
    return version


@pytest.fixture
def base(home: Home, tmp_path: Path) -> Base:
    """The base that the champions were released on, which the home knows."""
    base = known_base(tmp_path)
    update_routes(home, lambda _: Routes(0, {base.sha256: base}))
    return base


@pytest.fixture
def config() -> ServingConfig:
    return settings()


def up(home: Home, config: ServingConfig) -> dict[str, Any]:
    return stand_up(home, "tiny-that-is-nowhere", config, None, lambda text: None)


def test_a_killed_release_is_made_good(client: MlflowClient, home: Home, base: Base, config: ServingConfig) -> None:
    one = champion(client, home, base, b"one")
    two = champion(client, home, base, b"two", parent=1)
    result = up(home, config)
    assert result["loaded"] == [one.served_name, two.served_name] and result["problems"] == []
    assert result["gateway"] == f"http://127.0.0.1:{config.gateway.port}" and all(result["pids"].values())
    routes = read_routes(home)
    assert routes and routes.names[NAME].champion == two.number and routes.names[NAME].previous == one.number
    assert remembered(home) == config
    again = up(home, config)
    assert again["pids"] == result["pids"] and read_routes(home) == routes
    assert sorted(down(home)) == sorted(result["pids"].values())


def test_a_damaged_champion_does_not_hold_the_others_up(
    client: MlflowClient, home: Home, base: Base, config: ServingConfig
) -> None:
    good, bad = champion(client, home, base, b"good"), champion(client, home, base, b"bad", "bad")
    client.set_model_version_tag("bad", str(bad.number), "manifest", "{")
    result = up(home, config)
    assert result["loaded"] == [good.served_name]
    assert "bad v1 cannot be served" in str(result["problems"])


def test_an_unknown_base_is_a_problem(client: MlflowClient, home: Home, base: Base, config: ServingConfig) -> None:
    one = champion(client, home, base, b"one")
    champion(client, home, replace(base, sha256="9" * 64), b"other", "other")
    result = up(home, config)
    (told,) = (problem for problem in result["problems"] if "cannot be served" in problem)
    assert "other v1" in told and "its base tiny" in told and "turnout up -c PRESET" in str(result["problems"])
    assert result["loaded"] == [one.served_name]


def test_two_bases_are_two_pools(client: MlflowClient, home: Home, tmp_path: Path, base: Base) -> None:
    other = known_base(tmp_path, "other-base", "9" * 64)
    update_routes(home, lambda _: Routes(0, {base.sha256: base, other.sha256: other}))
    one, two = champion(client, home, base, b"one"), champion(client, home, other, b"two", "other")
    result = up(home, settings(replicas=2))
    assert result["problems"] == [] and len(set(result["engines"])) == 4
    routes = read_routes(home)
    assert routes and {base.sha256, other.sha256} == set(routes.bases)
    ready = sorted((replica.base_sha256, replica.ready) for replica in routes.replicas)
    assert ready == 2 * [("9" * 64, (two.served_name,))] + 2 * [(base.sha256, (one.served_name,))]


def test_garbage_in_the_home_is_made_anew(client: MlflowClient, home: Home, base: Base, config: ServingConfig) -> None:
    one = champion(client, home, base, b"one")
    assert up(home, config)["loaded"] == [one.served_name]
    home.routes.write_text("[" * 100_000)
    home.serving.write_text("[" * 100_000)
    assert remembered(home) is None
    # The running engine still knows the base.
    assert up(home, config)["loaded"] == [one.served_name] and read_routes(home) is not None


def test_with_the_registry_out_of_reach_the_last_routes_stand(
    client: MlflowClient, home: Home, base: Base, config: ServingConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = champion(client, home, base, b"one")
    up(home, config)
    down(home)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    result = up(home, config)
    assert result["loaded"] == [one.served_name] and "out of reach" in str(result["problems"])


def test_a_champion_whose_files_are_gone_is_fetched_again(
    client: MlflowClient, home: Home, base: Base, config: ServingConfig
) -> None:
    one = champion(client, home, base, b"one")
    up(home, config)
    down(home)
    folder = home.adapters / one.manifest.adapter_sha256
    folder.chmod(0o755)
    shutil.rmtree(folder)
    assert up(home, config)["loaded"] == [one.served_name] and folder.is_dir()


def test_nothing_released_and_no_base_has_nothing_to_serve(home: Home, config: ServingConfig) -> None:
    with pytest.raises(BadInput, match="tiny-that-is-nowhere"):
        up(home, config)
    assert serving_engines(home) == []


def test_routes_of_another_home_need_no_registry(
    home: Home, tmp_path: Path, client: MlflowClient, base: Base, config: ServingConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = champion(client, home, base, b"one")
    up(home, config)
    down(home)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    elsewhere = Home(tmp_path / "elsewhere")
    try:
        result = stand_up(elsewhere, "tiny-that-is-nowhere", config, home.routes, lambda text: None)
        assert result["loaded"] == [one.served_name] and result["problems"] == []
    finally:
        down(elsewhere)
