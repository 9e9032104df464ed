import hashlib
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from serving.keys import ClientKey, add_key, key_allows, list_keys, read_keys, remove_key
from turnout.errors import BadInput, NotFound
from turnout.paths import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_a_key_is_kept_as_its_hash_alone_in_a_file_of_its_owner(home: Home) -> None:
    text = add_key(home, "team-a", ["incidents"])
    assert text.startswith("sk-turnout-team-a.")
    secret = text.partition(".")[2]
    assert len(secret) >= 43  # 32 bytes in base64
    assert secret not in home.keys.read_text()
    assert read_keys(home)["team-a"].sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert stat.S_IMODE(home.keys.stat().st_mode) == 0o600


def test_keys_are_listed_and_removed(home: Home) -> None:
    assert list_keys(home) == []
    first, second = add_key(home, "b", ["*"]), add_key(home, "a", ["incidents", "base", "base"])
    assert first != second
    assert [(key.id, key.names) for key in list_keys(home)] == [("a", ("incidents", "base")), ("b", ("*",))]
    assert list_keys(home)[0].created.startswith("20")
    assert remove_key(home, "b") == 1
    assert list(read_keys(home)) == ["a"]


def test_an_id_is_given_once(home: Home) -> None:
    add_key(home, "a", ["x"])
    before = read_keys(home)
    with pytest.raises(BadInput, match="there is a key 'a' already"):
        add_key(home, "a", ["y"])
    assert read_keys(home) == before


@pytest.mark.parametrize("key_id", ["", "A", "a.b", "a b", "ä", "x" * 64])
def test_ids_that_cannot_be(home: Home, key_id: str) -> None:
    with pytest.raises(BadInput, match="cannot be a key's id"):
        add_key(home, key_id, ["x"])
    assert not home.keys.exists()


@pytest.mark.parametrize("names", [[], [""], ["a", "b c"], ["a,b"]])
def test_names_that_cannot_be(home: Home, names: list[str]) -> None:
    with pytest.raises(BadInput):
        add_key(home, "a", names)


def test_unknown_keys_cannot_be_removed(home: Home) -> None:
    add_key(home, "a", ["x"])
    with pytest.raises(NotFound, match="no key 'b'; known: a"):
        remove_key(home, "b")


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"keys": {"a": {"names": ["*"]}}}', '{"keys": ["a"]}'])
def test_a_damaged_file_is_an_error_and_not_an_open_gateway(home: Home, content: str) -> None:
    home.root.mkdir()
    home.keys.write_text(content)
    with pytest.raises(BadInput, match=r"keys\.json cannot be read"):
        read_keys(home)
    with pytest.raises(BadInput):
        add_key(home, "b", ["x"])
    assert home.keys.read_text() == content


def test_keys_that_are_added_at_the_same_time_are_all_kept(home: Home) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: add_key(home, f"k-{number}", ["x"]), range(24)))
    assert len(read_keys(home)) == 24


@pytest.mark.parametrize(
    ("names", "asked", "allowed"),
    [
        (("incidents",), "incidents", True),
        (("incidents",), "incidents-v3", True),
        (("incidents",), "incidents-v0", False),
        (("incidents",), "incidents-v3-v3", False),
        (("incidents",), "incidents-eu", False),
        (("incidents",), "incident", False),
        (("incidents",), "SmolLM2-nf4", False),
        (("SmolLM2-nf4",), "SmolLM2-nf4", True),
        (("incidents-v3",), "incidents-v3", True),
        (("incidents-v3",), "incidents-v4", False),
        (("incidents-v3",), "incidents", False),
        (("*",), "anything", True),
        ((), "incidents", False),
    ],
)
def test_a_key_allows_its_names_and_their_versions(names: tuple[str, ...], asked: str, allowed: bool) -> None:
    assert key_allows(ClientKey("a", "0" * 64, names), asked) is allowed
