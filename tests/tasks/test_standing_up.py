# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""`up` follows the release log, also in a home that never released anything."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from registry.releases import append
from registry.versions import Version, tag_version
from serving.routes import NameRoutes, Routes, read_routes, update_routes
from serving.stack import down
from tasks.following import follow_log
from tasks.standing_up import remembered, stand_up
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import BASE, NAME
from tests.tasks.versions import new_version, settings
from turnout.paths import Home
from turnout.references import Base

pytestmark = pytest.mark.usefixtures("no_registry_of_the_users")


@pytest.fixture(autouse=True)
def engines_end(home: Home) -> Iterator[None]:
    yield
    down(home)


def champion(client: MlflowClient, home: Home, weights: bytes, name: str = NAME, parent: int = 0) -> Version:
    version = new_version(client, home, weights, name)
    tag_version(client, name, version.number, {"served_base": BASE.name, "served_base_sha256": BASE.sha256})
    append(client, name, kind="promote", champion=version.number, parent=parent)
    return version


def known_base(home: Home, folder: Path) -> Base:
    """Routes of another name, on the base that the champions were released on."""
    base = replace(BASE, path=str(folder))
    update_routes(home, lambda _: Routes(0, base, {}))
    return base


def up(home: Home) -> dict[str, object]:
    return stand_up(home, "bundled", settings(), None, lambda text: None)


def test_a_killed_release_is_made_good(client: MlflowClient, home: Home, tmp_path: Path) -> None:
    known_base(home, tmp_path)
    one = champion(client, home, b"one")
    two = champion(client, home, b"two", parent=1)
    result = up(home)
    assert result["loaded"] == [two.served_name, one.served_name] and result["problems"] == []
    routes = read_routes(home)
    assert routes and routes.names[NAME].champion == two.number
    assert remembered(home) is not None
    generation = routes.generation
    up(home)
    again = read_routes(home)
    assert again and again.generation == generation


def test_a_damaged_champion_does_not_hold_the_others_up(client: MlflowClient, home: Home, tmp_path: Path) -> None:
    known_base(home, tmp_path)
    good, bad = champion(client, home, b"good"), champion(client, home, b"bad", "bad")
    client.set_model_version_tag("bad", str(bad.number), "manifest", "{")
    result = up(home)
    assert result["loaded"] == [good.served_name]
    assert "bad stays as it was served last" in str(result["problems"])


def test_an_unknown_base_is_a_problem(client: MlflowClient, home: Home) -> None:
    champion(client, home, b"one")
    (problem,) = follow_log(home, "tiny-that-is-nowhere", settings())
    assert "its base tiny" in problem and "turnout up -c PRESET" in problem and read_routes(home) is None


def test_champions_of_another_base_are_named(client: MlflowClient, home: Home, tmp_path: Path) -> None:
    base = known_base(home, tmp_path)
    one = champion(client, home, b"one")
    assert follow_log(home, "bundled", settings()) == []
    other = replace(base, sha256="9" * 64)
    update_routes(home, lambda _: Routes(0, other, {"else": NameRoutes(1, {})}))
    problems = follow_log(home, "tiny-that-is-nowhere", settings())
    assert len(problems) == 1 and one.name in problems[0]
    routes = read_routes(home)
    assert routes and routes.base == other and set(routes.names) == {"else"}


def test_garbage_in_the_home_is_made_anew(client: MlflowClient, home: Home, tmp_path: Path) -> None:
    known_base(home, tmp_path)
    one = champion(client, home, b"one")
    assert up(home)["loaded"] == [one.served_name]
    home.routes.write_text("[" * 100_000)
    home.serving.write_text("[" * 100_000)
    assert remembered(home) is None
    # The running engine still knows the base.
    assert up(home)["loaded"] == [one.served_name] and read_routes(home) is not None


def test_with_the_registry_out_of_reach_the_last_routes_stand(
    client: MlflowClient,
    home: Home,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known_base(home, tmp_path)
    one = champion(client, home, b"one")
    up(home)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    result = up(home)
    assert result["loaded"] == [one.served_name] and "out of reach" in str(result["problems"])


def test_a_champion_whose_files_are_gone_is_fetched_again(client: MlflowClient, home: Home, tmp_path: Path) -> None:
    known_base(home, tmp_path)
    one = champion(client, home, b"one")
    up(home)
    folder = home.adapters / one.manifest.adapter_sha256
    folder.chmod(0o755)
    shutil.rmtree(folder)
    assert up(home)["loaded"] == [one.served_name] and folder.is_dir()
