import pytest

from registry.names import check_name, parse_version, unknown_name, unknown_version
from turnout.errors import BadInput


@pytest.mark.parametrize("text", [3, "3", "v3", "incident-bot-v3"])
def test_a_version_may_be_written_in_four_ways(text: str | int) -> None:
    assert parse_version("incident-bot", text) == 3


@pytest.mark.parametrize("text", ["", "0", "v", "-1", "3.0", "other-v3", "latest", "../3", "9" * 12])
def test_anything_else_is_no_version(text: str) -> None:
    with pytest.raises(BadInput, match="is not a version of incident-bot"):
        parse_version("incident-bot", text)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a.b", "Bot", "a b", "a'b", "x" * 64, "bot-v3", "bot\n", "bot:1"])
def test_names_that_could_leave_their_place_are_refused(name: str) -> None:
    with pytest.raises(BadInput):
        check_name(name)


def test_an_unknown_name_lists_the_known_ones_nearest_first() -> None:
    error = unknown_name("incident-bto", ["zebra", "incident-bot"])
    assert "known: incident-bot, zebra" in error.message


def test_an_unknown_version_lists_the_newest_first() -> None:
    error = unknown_version("bot", 99, range(1, 13))
    assert "registered: v12, v11" in error.message and error.message.endswith("…")
