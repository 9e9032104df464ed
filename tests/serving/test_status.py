# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""`status`: the release log against what is served, also with a registry that is out of reach."""

from pathlib import Path
from typing import Any

import pytest

from serving.gateway.records import list_workers
from serving.placement import unload
from serving.reconciler_process import start_reconciler
from serving.releasing import promote, rollback
from serving.routes import NameRoutes, Routes, update_routes
from serving.status import compare
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME
from tests.serving.yard import Yard, kill, wait_until, yard
from turnout.errors import RegistryUnavailable
from turnout.paths import Home
from turnout.references import Base

BASE = Base("base", "base", "/nowhere", "a" * 64, "b" * 64, "c" * 64, (0,))


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home whose registry is out of reach."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    return Home(tmp_path)


def test_what_nobody_knows_is_not_in_sync(alone: Home) -> None:
    result = compare(alone, None)
    assert result["in_sync"] is False and result["adapters"] == [] and "out of reach" in result["problems"][0]
    with pytest.raises(RegistryUnavailable):
        compare(alone, "bot")


def test_the_last_routes_stand_in(alone: Home) -> None:
    update_routes(alone, lambda _: Routes(0, {BASE.sha256: BASE}, {"bot": NameRoutes(1)}))
    result = compare(alone, "bot")
    assert [adapter["name"] for adapter in result["adapters"]] == ["bot"] and "out of reach" in result["problems"][0]
    with pytest.raises(RegistryUnavailable):
        compare(alone, "other")


def test_routes_that_cannot_be_read_are_a_problem(alone: Home) -> None:
    alone.routes.write_text("[" * 100_000)
    assert any("cannot be read" in problem for problem in compare(alone, None)["problems"])


def test_what_the_log_says_against_what_is_served(yard: Yard) -> None:
    engine = yard.engine()
    one = yard.make(b"one")
    yard.append(one)
    (row,) = compare(yard.home, NAME)["adapters"]
    assert not row["in_sync"] and row["problems"] == [
        "v1 is the champion, and no version gets the traffic here: turnout up"
    ]
    yard.serve(yard.make(b"two"))
    result = compare(yard.home, NAME)
    (row,) = result["adapters"]
    assert result["in_sync"] and row["in_sync"] and (row["champion"], row["previous"]) == (2, 1)
    served = {"pool": "tiny", "kind": "vllm", "replica": engine.id, "loaded": True, "proof": "proven", "problem": ""}
    assert row["served"] == [served | {"version": 1, "traffic": 0.0}, served | {"version": 2, "traffic": 1.0}]
    unload(engine, "incident-bot-v2")
    assert f"v2 is not loaded on {engine.id}" in compare(yard.home, NAME)["adapters"][0]["problems"][0]


def test_a_canary_and_an_emergency_show(yard: Yard) -> None:
    yard.engine()
    yard.serve(yard.make(b"one"), yard.make(b"two"))
    yard.make(b"three")
    promote(yard.home, NAME, 3, canary=20)
    result = compare(yard.home, None)
    assert result["in_sync"] and result["adapters"][0]["weights"] == {"3": 20.0}
    assert [each["traffic"] for each in result["adapters"][0]["served"]] == [0.0, 0.8, 0.2]
    rollback(yard.home, NAME, emergency=True)
    (row,) = compare(yard.home, None)["adapters"]
    assert not row["in_sync"] and "v2 is the champion, and v1 gets the traffic here" in row["problems"][0]


def test_missing_processes_are_problems(yard: Yard) -> None:
    yard.engine()
    yard.serve(yard.make(b"one"))
    yard.gateway()
    assert compare(yard.home, None)["problems"] == ["the reconciler does not run: turnout up"]
    kill(list_workers(yard.home)[0].pid)
    wait_until(lambda: not list_workers(yard.home), "the worker is dead")
    assert "no gateway worker runs: turnout up" in compare(yard.home, None)["problems"]


def test_what_the_reconciler_finds_wrong_is_told(yard: Yard) -> None:
    yard.engine()
    yard.serve(yard.make(b"one"))
    yard.serve(yard.make(b"two", proven=False))
    start_reconciler(yard.home, follow_log=True)
    row = wait_until(lambda: told(yard, "is not ready on every replica"), "a pass has told")
    assert not row["in_sync"] and row["served"][0]["traffic"] == 1.0


def told(yard: Yard, words: str) -> dict[str, Any] | None:
    (row,) = compare(yard.home, NAME)["adapters"]
    return row if words in str(row["problems"]) else None
