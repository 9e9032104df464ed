"""Bad files through the command: exit code 2, and the one reason; what each check finds is in tests/data."""

import json
from collections.abc import Iterable

import pytest

from tests.conftest import Turnout
from tests.data.test_checks import FIRST, HEALTHY, REFUSED, prompts

PREFERENCE = {"prompt": "q", "chosen": "a", "rejected": "b"}
LONG = prompts(lambda text: f"{text} {'x y ' * 600}")


def lines(rows: Iterable[object]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def check(turnout: Turnout, content: bytes, *settings: str) -> dict[str, object]:
    file = turnout.folder / "rows.jsonl"
    file.write_bytes(content)
    outcome = turnout("data", "check", str(file), "--json", *settings)
    assert outcome.code == 2 and "Traceback" not in outcome.err, outcome
    found: dict[str, object] = outcome.json
    return found


@pytest.mark.parametrize("name", ["shuffled answers", "training prompts in three spellings"])
def test_a_check_that_refuses(turnout: Turnout, name: str) -> None:
    expected, rows = REFUSED[name]
    report = check(turnout, lines(rows))
    assert [problem.partition(":")[0] for problem in report["problems"]] == [expected]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("content", "settings", "problem"),
    [
        (lines([*HEALTHY, FIRST | {"output": " "}]), (), "broken: 1 row cannot be read"),
        (lines(row | {"instruction": "Why?"} for row in HEALTHY[:2]), (), "prompts: 1 distinct prompt; at least 2"),
        (lines(LONG), (), "prompts: 168 of 168 rows are over data.max_length=256 tokens, which leaves 0 distinct"),
        (lines([*HEALTHY, LONG[0]]), ("--set", "data.on_too_long=refuse"), "too_long: 1 of 169 rows"),
    ],
    ids=["a blank answer", "one prompt", "all rows too long", "a row too long"],
)
def test_rows_that_cannot_be_trained_on(
    turnout: Turnout, content: bytes, settings: tuple[str, ...], problem: str
) -> None:
    report = check(turnout, content, *settings)
    refusals = [item for item in report["checks"] if item["severity"] == "refuse"]  # type: ignore[attr-defined]
    assert [f"{item['name']}: {item['text']}"[: len(problem)] for item in refusals] == [problem]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (lines([PREFERENCE] * 3), "a preference row"),
        (lines([*HEALTHY, {"prompt": "q", "completion": "a"}]), "mixes formats"),
        (lines(HEALTHY).decode().encode("cp949", "replace"), "is not UTF-8"),
        (lines(HEALTHY).decode().encode("utf-16"), "it looks like UTF-16"),
    ],
    ids=["preferences", "two formats", "another encoding", "UTF-16"],
)
def test_a_file_of_another_kind(turnout: Turnout, content: bytes, words: str) -> None:
    error = check(turnout, content)["error"]
    assert isinstance(error, dict) and error["kind"] == "bad_data" and words in error["message"], error
