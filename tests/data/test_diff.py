"""What differs between two sources, whatever their format and the order of their rows."""

import json
from typing import Any

import pytest

from data.diff import SHOWN, Difference, diff
from tests.data.conftest import Write
from turnout.errors import DataError


def row(prompt: str, answer: str) -> dict[str, Any]:
    return {"instruction": prompt, "output": answer}


def counts(found: Difference) -> tuple[int, int, int, int]:
    return found.added, found.removed, found.changed, found.unchanged


def test_rows_are_added_removed_changed_or_stay(write: Write) -> None:
    before = write("a.jsonl", [row("one", "1"), row("two", "2"), row("three", "3")])
    after = write("b.jsonl", [row("three", "3"), row("two", "zwei"), row("four", "4"), row("five", "5")])
    found = diff(before, after)
    assert counts(found) == (2, 1, 1, 1)
    assert [(each.prompt, each.before, each.after) for each in found.examples["added"]] == [
        ("four", None, "4"),
        ("five", None, "5"),
    ]
    assert [(each.prompt, each.before, each.after) for each in found.examples["removed"]] == [("one", "1", None)]
    assert [(each.prompt, each.before, each.after) for each in found.examples["changed"]] == [("two", "2", "zwei")]


def test_the_same_rows_in_another_format_and_order_do_not_differ(write: Write) -> None:
    rows = [row("원인?", "메모리"), row("two", "2")]
    before = write("a.jsonl", rows)
    after = write(
        "b.json",
        json.dumps([{"prompt": each["instruction"], "completion": each["output"]} for each in reversed(rows)]),
    )
    assert counts(diff(before, after)) == (0, 0, 0, 2)


def test_a_row_counts_as_often_as_it_stands_there(write: Write) -> None:
    once = write("a.jsonl", [row("one", "1"), row("two", "2")])
    thrice = write("b.jsonl", [row("one", "1"), row("one", "1"), row("one", "1"), row("two", "2")])
    assert counts(diff(once, thrice)) == (2, 0, 0, 2)
    assert counts(diff(thrice, once)) == (0, 2, 0, 2)


def test_of_several_answers_to_a_prompt_only_those_that_differ_changed(write: Write) -> None:
    before = write("a.jsonl", [row("one", "1"), row("one", "uno"), row("two", "2")])
    after = write("b.jsonl", [row("one", "eins"), row("one", "1"), row("one", "un"), row("two", "2")])
    assert counts(diff(before, after)) == (1, 0, 1, 2)


def test_a_folder_is_all_its_files(write: Write) -> None:
    parts = write("a.jsonl", [row("one", "1")]).parent
    write("b.jsonl", [row("two", "2")])
    whole = write("whole.txt", json.dumps(row("one", "1")) + "\n" + json.dumps(row("two", "2")) + "\n")
    assert counts(diff(whole, parts)) == (0, 0, 0, 2)


def test_only_the_first_rows_are_shown(write: Write) -> None:
    before = write("a.jsonl", [row("zero", "0"), row("one", "1")])
    after = write("b.jsonl", [row("zero", "0"), *(row(f"prompt {number}", "x") for number in range(20))])
    found = diff(before, after)
    assert found.added == 20
    assert [each.prompt for each in found.examples["added"]] == [f"prompt {number}" for number in range(SHOWN)]


def test_a_broken_side_is_named(write: Write) -> None:
    with pytest.raises(DataError, match=r"b\.jsonl"):
        diff(write("a.jsonl", [row("one", "1")]), write("b.jsonl", '{"instruction": \n'))
