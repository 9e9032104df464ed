"""Which files a source is made of, and its digest."""

from pathlib import Path

import pytest

from data.config import DataConfig
from data.source import source_files, source_name, source_sha256
from tests.data.conftest import Write
from turnout.digests import file_sha256
from turnout.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "rows"
    (folder / "older.jsonl").mkdir(parents=True)
    for name in ("b.jsonl", "a.JSONL", "c.parquet", ".hidden.jsonl", "notes.txt", "old.jsonl.bak"):
        (folder / name).write_text(name, "utf-8")
    return folder


def test_a_folder_is_its_data_files_in_name_order(folder: Path) -> None:
    assert [file.name for file in source_files(folder)] == ["a.JSONL", "b.jsonl", "c.parquet"]


def test_a_file_is_itself_whatever_it_is_called(write: Write) -> None:
    file = write("rows.txt", "{}")
    assert source_files(file) == [file]
    assert source_sha256(file) == file_sha256(file)


def test_the_digest_of_a_folder_follows_its_data_files_alone(folder: Path) -> None:
    first = source_sha256(folder)
    (folder / "notes.txt").write_text("changed", "utf-8")
    assert source_sha256(folder) == first

    (folder / "b.jsonl").write_text("changed", "utf-8")
    second = source_sha256(folder)
    (folder / "b.jsonl").rename(folder / "d.jsonl")
    assert len({first, second, source_sha256(folder)}) == 3


def test_a_folder_without_data_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("none", "utf-8")
    with pytest.raises(DataError, match="holds no data file"):
        source_sha256(tmp_path)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.jsonl cannot be read: No such file"):
        source_sha256(tmp_path / "gone.jsonl")


def test_a_folder_is_called_by_its_own_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert source_name(DataConfig(path=str(folder))) == "rows"
    monkeypatch.chdir(folder)
    assert source_name(DataConfig(path=".")) == "rows"
