"""`turnout data check` as a command: text, JSON, the page and the exit codes."""

import json

import pytest

from tests.conftest import Turnout


def lines(count: int, answer: str = "Cause: Queue {0} is full. Fix: Drain queue {0}.") -> str:
    rows = [
        {"instruction": f"Explain fault {n} of queue {n % 9}", "output": answer.format(n % 9)} for n in range(count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_healthy_sample_is_told_as_json_and_as_a_page(turnout: Turnout) -> None:
    page = turnout.folder / "pages" / "check.html"
    outcome = turnout("data", "check", "sample:incidents", "--json", "--html", str(page))
    assert outcome.code == 0, outcome
    report = outcome.json
    assert {"rows", "format", "duplicates", "leaked", "too_long", "problems"} <= report.keys()
    assert (report["rows"], report["format"], report["problems"], report["max_length"]) == (168, "instruction", [], 256)
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_a_bad_file_ends_with_2_and_a_warning_with_0(turnout: Turnout) -> None:
    file = turnout.folder / "rows.jsonl"
    file.write_text(lines(60) * 2)
    refused = turnout("data", "check", "rows.jsonl", "--json")
    assert refused.code == 2 and refused.json["refused"]
    assert refused.json["problems"] == ["duplicates: 60 of 120 rows (50.0%) repeat an earlier row; the limit is 30%"]

    warned = turnout("data", "check", "rows.jsonl", "--set", "data.checks.duplicates.action=warn")
    assert warned.code == 0, warned
    assert "rows.jsonl: 120 rows (instruction)" in warned.out and "line 61 repeats line 1" in warned.out
    assert "fit to train on" in warned.out and "warn" in warned.out


def test_what_cannot_be_read_fails_as_everywhere(turnout: Turnout) -> None:
    missing = turnout("data", "check", "no/such.jsonl", "--json")
    assert missing.code == 2 and missing.json["error"]["kind"] == "bad_data"
    empty = turnout("data", "check", "", "--json")
    assert empty.code == 2 and "path of the rows is empty" in empty.json["error"]["message"]
    wrong = turnout("data", "check", "sample:incidents", "--set", "data.checks.leaked.above=2", "--json")
    assert wrong.code == 2 and "data.checks" in wrong.json["error"]["message"]


def test_a_page_that_cannot_be_written_is_told_before_the_check(turnout: Turnout) -> None:
    (turnout.folder / "folder").mkdir()
    (turnout.folder / "file").write_text("")
    for place, why in (("folder", "is a folder"), ("file/page.html", "cannot be written"), ("/proc/a.html", "/proc/a")):
        outcome = turnout("data", "check", "no/such.jsonl", "--html", place, "--json")
        assert outcome.code == 2 and why in outcome.json["error"]["message"], outcome


@pytest.mark.slow
@pytest.mark.e2e
def test_run_refuses_what_the_check_refuses(turnout: Turnout) -> None:
    (turnout.folder / "rows.jsonl").write_text(lines(60, "Cause: Queue {0} is full. Fix: Drain que"))
    checked = turnout("data", "check", "rows.jsonl", "--json")
    assert checked.code == 2 and [p.partition(":")[0] for p in checked.json["problems"]] == ["truncated"]
    ran = turnout("run", "--set", "data.path=rows.jsonl", "--json")
    assert ran.code == 2 and "truncated: 60 of 60 rows" in ran.json["error"]["message"]
