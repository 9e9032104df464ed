"""`status` with a registry that is out of reach."""

from pathlib import Path

import pytest

from serving.routes import NameRoutes, Routes, update_routes
from serving.status import compare
from turnout.errors import RegistryUnavailable
from turnout.paths import Home
from turnout.references import Base

BASE = Base("base", "base", "/nowhere", "a" * 64, "b" * 64, "c" * 64, (0,))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    return Home(tmp_path)


def test_what_nobody_knows_is_not_in_sync(home: Home) -> None:
    result = compare(home, None)
    assert result["in_sync"] is False and result["adapters"] == [] and "out of reach" in result["problems"][0]
    with pytest.raises(RegistryUnavailable):
        compare(home, "bot")


def test_the_last_routes_stand_in(home: Home) -> None:
    update_routes(home, lambda _: Routes(0, {BASE.sha256: BASE}, {"bot": NameRoutes(1)}))
    result = compare(home, "bot")
    assert [adapter["name"] for adapter in result["adapters"]] == ["bot"] and "out of reach" in result["problems"][0]
    with pytest.raises(RegistryUnavailable):
        compare(home, "other")


def test_routes_that_cannot_be_read_are_a_problem(home: Home) -> None:
    home.routes.write_text("[" * 100_000)
    assert any("cannot be read" in problem for problem in compare(home, None)["problems"])
