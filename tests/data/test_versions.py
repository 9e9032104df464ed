"""Sources are kept once, verified, and come back bit for bit."""

from dataclasses import replace
from pathlib import Path

import pytest

from data.source import source_files, source_sha256
from data.versions import check_out, keep_source, keep_version, kept_source
from tests.registry.material import BASE, DATASET
from turnout.dataset_records import read_record, read_records
from turnout.errors import BadInput, DataError
from turnout.paths import Home
from turnout.references import Dataset

CONTENT = b'\xef\xbb\xbf{"instruction": "a"}\r\n\x00no end of line'


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture(params=["file", "folder", "folder of one file"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "original"
    folder.mkdir()
    (folder / "rows.jsonl").write_bytes(CONTENT)
    if request.param == "folder":
        (folder / "more rows.csv").write_bytes(b"a,b\n")
        (folder / "notes.txt").write_bytes(b"not a data file")
    return folder / "rows.jsonl" if request.param == "file" else folder


def keep(home: Home, source: Path) -> str:
    sha256 = source_sha256(source)
    keep_source(home, source_files(source), sha256)
    return sha256


def content(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in source_files(path)}


def test_what_was_kept_comes_back_bit_for_bit(home: Home, source: Path, tmp_path: Path) -> None:
    sha256, before, was_file = keep(home, source), content(source), source.is_file()
    for file in source_files(source):
        file.write_bytes(b"edited in place")

    kept = kept_source(home, sha256)
    assert kept is not None and kept.is_file() == was_file
    target = check_out(kept, sha256, tmp_path / "rows.jsonl")
    assert target.is_file() == was_file
    assert content(target) == before
    assert source_sha256(target) == sha256
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "original", "rows.jsonl"]


def test_the_bytes_are_kept_once_and_a_damaged_copy_is_replaced(home: Home, source: Path) -> None:
    sha256 = keep(home, source)
    file = home.sources / sha256 / "rows.jsonl"
    inode = file.stat().st_ino
    assert keep(home, source) == sha256 and file.stat().st_ino == inode

    file.write_bytes(CONTENT[::-1])
    assert kept_source(home, sha256) is None
    keep(home, source)
    assert kept_source(home, sha256) is not None
    assert [path.name for path in home.sources.iterdir()] == [sha256]


def test_other_bytes_than_the_digest_says_are_not_kept(home: Home, source: Path) -> None:
    with pytest.raises(DataError, match="does not have the digest"):
        keep_source(home, source_files(source), "0" * 64)
    assert not list(home.sources.iterdir())
    assert kept_source(home, "0" * 64) is None


def test_a_checkout_never_overwrites(home: Home, source: Path, tmp_path: Path) -> None:
    sha256 = keep(home, source)
    kept = kept_source(home, sha256)
    assert kept is not None
    other = tmp_path / "other.jsonl"
    other.write_text("mine", "utf-8")
    with pytest.raises(BadInput, match="holds other content"):
        check_out(kept, sha256, other)
    assert other.read_text("utf-8") == "mine"

    link = tmp_path / "link"
    link.symlink_to("nowhere")
    with pytest.raises(BadInput, match="holds other content"):
        check_out(kept, sha256, link)
    assert link.is_symlink()

    with pytest.raises(BadInput, match="does not exist"):
        check_out(kept, sha256, tmp_path / "missing" / "rows.jsonl")
    for place in (Path("/proc/rows"), tmp_path / ("x" * 300)):
        with pytest.raises(BadInput, match="cannot be written"):
            check_out(kept, sha256, place)

    target = check_out(kept, sha256, tmp_path / "rows.jsonl")
    inode = target.stat().st_ino
    assert check_out(kept, sha256, tmp_path / "rows.jsonl").stat().st_ino == inode


def test_a_checkout_into_a_folder(home: Home, source: Path, tmp_path: Path) -> None:
    sha256 = keep(home, source)
    kept = kept_source(home, sha256)
    assert kept is not None
    folder = tmp_path / "empty"
    folder.mkdir()
    target = check_out(kept, sha256, folder)
    assert target == (folder / "rows.jsonl" if kept.is_file() else folder)
    assert content(target) == content(kept)


def test_a_damaged_kept_copy_is_not_checked_out(home: Home, source: Path, tmp_path: Path) -> None:
    sha256 = keep(home, source)
    kept = kept_source(home, sha256)
    assert kept is not None
    (home.sources / sha256 / "rows.jsonl").write_bytes(b"damaged")
    with pytest.raises(DataError, match="is not what was kept"):
        check_out(kept, sha256, tmp_path / "rows.jsonl")
    assert not (tmp_path / "rows.jsonl").exists()


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared" / "validation.parquet").write_bytes(b"rows")
    return replace(DATASET, path=str(tmp_path / "prepared"))


def test_a_version_is_recorded_once_and_keeps_its_first_date(home: Home, dataset: Dataset, source: Path) -> None:
    dataset = replace(dataset, source_sha256=source_sha256(source))
    keep_version(home, dataset, source, BASE)
    first = read_record(home, dataset.sha256)
    assert first is not None and (first.dataset, first.base) == (dataset, BASE)
    keep_version(home, dataset, source, BASE)
    assert read_records(home) == [first]

    other_base = replace(BASE, tokenizer_sha256="0" * 64)
    keep_version(home, dataset, source, other_base)
    assert read_records(home) == [replace(first, base=other_base)]


def test_a_source_that_changes_while_it_is_kept_is_told(home: Home, dataset: Dataset, source: Path) -> None:
    dataset = replace(dataset, source_sha256=source_sha256(source))
    source_files(source)[0].write_bytes(b"changed")
    with pytest.raises(DataError, match="was changed while it was read"):
        keep_version(home, dataset, source, BASE)
    assert read_records(home) == []


def test_records_that_cannot_be_read_are_left_out(home: Home, dataset: Dataset, source: Path) -> None:
    keep_version(home, replace(dataset, source_sha256=source_sha256(source)), source, BASE)
    (home.dataset_versions / "0.json").write_text("{}", "utf-8")
    assert [record.dataset.sha256 for record in read_records(home)] == [dataset.sha256]
