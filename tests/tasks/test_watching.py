# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""What a look at a name's data finds, and that it is told once."""

import shutil
from pathlib import Path

import pytest
from mlflow import MlflowClient

from data.config import DataConfig
from tasks.drift import Drift
from tasks.shifts import Shift
from tasks.watching import DATA_CHANGED, DRIFT, News, data_news, drift_news, remember, untold
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.tasks.learnt import Learner
from turnout.errors import DataError
from turnout.paths import Home


@pytest.fixture
def learner(client: MlflowClient, home: Home, tmp_path: Path) -> Learner:
    return Learner.make(client, home, tmp_path)


def test_bytes_that_the_champion_learnt_are_no_news(learner: Learner) -> None:
    assert data_news(DataConfig(path=str(learner.rows)), learner.champion()) == []


def test_other_bytes_are_news_and_no_row_of_them_is_read(learner: Learner) -> None:
    champion = learner.champion()
    learner.rows.write_text("not a row", "utf-8")
    (news,) = data_news(DataConfig(path=str(learner.rows)), champion)
    assert news.event == DATA_CHANGED
    assert "which bot-v1 learnt from" in news.text


def test_a_new_file_in_a_watched_folder_is_news(learner: Learner, tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    shutil.copy(learner.rows, folder / "a.jsonl")
    champion, config = learner.champion(b"one", f"data.path={folder}"), DataConfig(path=str(folder))
    (folder / ".b.jsonl.partial").write_text("half", "utf-8")
    assert data_news(config, champion) == []
    (folder / "b.jsonl").write_text('{"instruction": "Why?", "output": "Because."}\n', "utf-8")
    assert [news.event for news in data_news(config, champion)] == [DATA_CHANGED]


def test_without_a_champion_a_look_begins_nothing(learner: Learner) -> None:
    assert data_news(DataConfig(path=str(learner.rows)), None) == []


def test_data_that_is_gone_is_an_error(learner: Learner) -> None:
    learner.rows.unlink()
    with pytest.raises(DataError, match="is not there"):
        data_news(DataConfig(path=str(learner.rows)), None)


def test_drift_is_news_only_above_a_limit() -> None:
    near, far = Shift("length", 0.1, 0.2, False, "near"), Shift("loss", 0.5, 0.2, True, "far")
    assert drift_news(Drift(30, "f:a", (near,))) == []
    assert drift_news(Drift(30, "f:a", (near, far))) == [News(DRIFT, "f:a", "drift: far")]


def test_each_news_is_told_once_and_newer_ones_again(learner: Learner) -> None:
    first, second = News(DATA_CHANGED, "1", "one"), News(DATA_CHANGED, "2", "two")
    drift = News(DRIFT, "1", "drift")
    assert untold("bot", [first, drift]) == [first, drift]
    remember("bot", [first])
    assert untold("bot", [first, drift]) == [drift]
    remember("bot", [drift])
    assert untold("bot", [first, drift]) == []
    assert untold("bot", [second]) == [second]
    assert untold("other", [first]) == [first]
