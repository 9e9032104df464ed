"""Datasets with one thing wrong each: refused, or warned of, for that reason alone; the healthy sample passes."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from data.check import check_file
from data.checks.config import ChecksConfig
from data.checks.page import report_page
from data.config import DataConfig
from data.conversation import Message, conversation_sha256
from data.prepare import prepare
from data.source import resolve
from data.split import is_validation
from tests.data.conftest import Write
from turnout.errors import DataError
from turnout.references import Base

Rows = list[dict[str, str]]
HEALTHY: Rows = [json.loads(line) for line in resolve(DataConfig()).read_text("utf-8").splitlines()]
FIRST = HEALTHY[0]


def answers(change: Callable[[str], str]) -> Rows:
    return [row | {"output": change(row["output"])} for row in HEALTHY]


def prompts(change: Callable[[str], str], rows: Rows = HEALTHY) -> Rows:
    return [row | {"instruction": change(row["instruction"])} for row in rows]


def shuffled(rows: Rows, seed: int) -> Rows:
    mixed = [row["output"] for row in rows]
    random.Random(seed).shuffle(mixed)
    return [row | {"output": answer} for row, answer in zip(rows, mixed, strict=True)]


def unreadable(text: str) -> str:
    return "".join(letter if letter.isascii() else "\ufffd" for letter in text)


def misread(text: str) -> str:
    return text.encode().decode("latin-1")


def trained_on(prompt: str) -> bool:
    return not is_validation(conversation_sha256([Message("user", prompt)]), DataConfig().validation_fraction)


def reworded(rows: Rows) -> Rows:
    """Training rows once more, each with two marks after its prompt; only those that are training rows then too."""
    again = prompts(lambda text: f"{text}!", rows) + prompts(lambda text: f"{text} ??", rows)
    kept = {row["instruction"] for row in rows if trained_on(row["instruction"])}
    return [row for row in again if row["instruction"].rstrip("!? ") in kept and trained_on(row["instruction"])]


REFUSED: dict[str, tuple[str, Rows]] = {
    "every row twice": ("duplicates", HEALTHY * 2),
    "training prompts in three spellings": ("near_duplicates", HEALTHY + reworded(HEALTHY)),
    "validation prompts in capitals": ("leaked", HEALTHY + prompts(lambda text: f"{text.upper()}!", HEALTHY[:60])),
    "validation prompts with a space": ("leaked", HEALTHY + prompts(lambda text: f"{text} ", HEALTHY[:30])),
    "answers cut in half": ("truncated", answers(lambda text: text[: len(text) // 2])),
    "answers of 20 characters": ("truncated", answers(lambda text: text[:20])),
    "answers without their ends": ("truncated", answers(lambda text: text[:-5])),
    "answers within the prompts": (
        "answer_in_prompt",
        [row | {"instruction": f"{row['instruction']} {row['output']}"} for row in HEALTHY],
    ),
    "read as Latin-1": ("damaged", [{key: misread(text) for key, text in row.items()} for row in HEALTHY]),
    "replacement characters": ("damaged", answers(unreadable)),
    "shuffled answers": ("shuffled", shuffled(HEALTHY, 0)),
    "few shuffled answers": ("shuffled", shuffled(HEALTHY[:60], 1)),
}  # fmt: skip

WARNED: dict[str, tuple[str, Rows, str]] = {
    "an address": ("personal_data", [*HEALTHY, FIRST | {"instruction": "Ask alice@corp.com now."}], "e-mail address 1"),
    "a cloud key": ("personal_data", [*HEALTHY, FIRST | {"instruction": "AKIAIOSFODNN7EXAMPLE"}], "cloud key 1"),
    "a token": ("personal_data", [*HEALTHY, FIRST | {"instruction": "ghp_" + "a1B2" * 9}], "API token 1"),
    "a card": ("personal_data", [*HEALTHY, FIRST | {"instruction": "4111 1111 1111 1111 paid"}], "card number 1"),
    "one answer for all": ("labels", answers(lambda _text: "yes"), "168 of 168 rows (100.0%) have one and the same"),
    "a long row": ("too_long", [*HEALTHY, FIRST | {"instruction": "x y " * 600}], "1 of 169 rows"),
}


def problems(rows: Rows, base: Base, write: Write, **settings: Any) -> list[str]:
    report = check_file(DataConfig(path=str(write("a.jsonl", rows)), **settings), base)
    return report.data["problems"]


@pytest.mark.parametrize(("check", "rows"), REFUSED.values(), ids=REFUSED)
def test_a_bad_dataset_is_refused_for_its_own_reason(check: str, rows: Rows, base: Base, write: Write) -> None:
    config = DataConfig(path=str(write("a.jsonl", rows)))
    report = check_file(config, base)
    assert [item.name for item in report.refusals] == [check]
    assert [problem.partition(":")[0] for problem in report.data["problems"]] == [check]

    with pytest.raises(DataError, match=rf"a.jsonl is refused by its checks.\n{check}: ") as caught:
        prepare(config, base, write("b", "").with_name("out"))
    assert f"data.checks.{check}.action=warn" in caught.value.next_step
    if check != "shuffled":
        assert "the limit is" in caught.value.message and "\n  line " in caught.value.message


@pytest.mark.parametrize(("check", "rows", "text"), WARNED.values(), ids=WARNED)
def test_what_may_be_meant_is_only_warned_of(check: str, rows: Rows, text: str, base: Base, write: Write) -> None:
    config = DataConfig(path=str(write("a.jsonl", rows)))
    report = check_file(config, base)
    assert not report.data["refused"]
    [finding] = report.warnings
    assert finding.name == check and text in finding.text and len(finding.examples) == 1
    dataset = prepare(config, base, write("b", "").with_name("out"))
    assert any(text in note for note in dataset.notes)


def test_the_healthy_samples_pass_without_a_word(base: Base) -> None:
    for name in ("sample:incidents", "sample:incidents-six"):
        report = check_file(DataConfig(path=name), base)
        assert (report.data["problems"], report.data["refused"], report.data["file"]) == ([], False, name)
    assert check_file(DataConfig(), base).data["languages"].keys() == {"en", "ko"}


@pytest.mark.parametrize(
    "rows",
    [
        [{"instruction": f"What is {a} + {b}?", "output": str(a + b)} for a in range(20) for b in range(10)],
        [{"instruction": f"Is {a} even?", "output": ("yes", "no")[a % 2]} for a in range(300)],
        [{"instruction": f"{'Complete the request. ' * 20}Colour {a}", "output": f"Couleur {a}."} for a in range(300)],
        [{"instruction": f"List {a} things", "output": f"1. Bread {a}\n2. Milk and tea"} for a in range(100)],
    ],
    ids=["sums", "parity", "long template", "lists"],
)
def test_small_tasks_of_other_kinds_pass(rows: Rows, base: Base, write: Write) -> None:
    assert problems(rows, base, write) == []


def test_near_duplicates_are_told_apart_from_repeated_rows(base: Base, write: Write) -> None:
    twins = [prompts(lambda text, n=n: f"{text.lower()}{'.' * n}")[5] for n in range(1, 4)]
    config = DataConfig(path=str(write("a.jsonl", [*HEALTHY, *twins, HEALTHY[5]])))
    report = check_file(config, base)
    assert (report.data["duplicates"], report.data["near_duplicates"]) == (1, 3)
    found = {item.name: item for item in report.findings}
    assert found["near_duplicates"].examples[0] == "line 169 is like line 6"
    assert found["duplicates"].examples == ("line 172 repeats line 6",)


def test_every_check_can_be_turned_into_a_warning_or_off(base: Base, write: Write) -> None:
    twice = HEALTHY * 2
    assert problems(twice, base, write, checks={"duplicates": {"action": "warn", "above": 0.6}}) == []
    [warning] = problems(twice, base, write, checks={"duplicates": {"action": "warn", "above": 0.4}})
    assert warning == "duplicates: 168 of 336 rows (50.0%) repeat an earlier row; the limit is 40%"
    assert problems(twice, base, write, checks={"duplicates": {"above": 0.6}}) == []
    assert problems(twice, base, write, checks={"duplicates": {"action": "off"}}) == []
    assert problems(shuffled(HEALTHY, 0), base, write, checks={"shuffled": {"action": "off"}}) == []


def test_what_is_found_of_a_secret_is_masked(base: Base, write: Write) -> None:
    secret = "sk-" + "q7Zt" * 10
    report = check_file(DataConfig(path=str(write("a.jsonl", [*HEALTHY, FIRST | {"instruction": secret}]))), base)
    assert report.data["personal_data"] == {"API token": 1}
    shown = json.dumps(report.data, ensure_ascii=False)
    assert secret not in shown and "sk-q… (43 characters)" in shown


SECRETS = {
    "address": "jane.doe@corp.example.com",
    "card": "4111 1111 1111 1111",
    "token": "ghp_" + "a1B2" * 9,
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq\n-----END RSA PRIVATE KEY-----",
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_no_check_shows_a_secret_in_its_examples(secret: str, base: Base, write: Write) -> None:
    cut = FIRST | {"output": f"First. Then write to {secret}, and"}
    given = {"instruction": f"What is it? The key is {secret}", "output": f"The key is {secret}"}
    damaged = {"instruction": f"{secret} cafÃ© â€™s Ã©tÃ©", "output": "An answer."}
    unread = {"instruction": {secret: 1}, "output": "An answer.", "input": [secret]}
    labels = [{"instruction": f"Who answers call {n}?", "output": secret[:40]} for n in range(4000)]
    every = [cut, given, damaged, unread, {"instruction": "x", "output": 5, secret: "x"}]
    for rows in ([*HEALTHY, *every], labels if len(secret) <= 40 else every):
        report = check_file(DataConfig(path=str(write("a.jsonl", rows))), base).data
        for shown in (json.dumps(report, ensure_ascii=False), report_page(report)):
            assert not [part for part in secret.split("\n") if part[8:] and part[8:24] in shown]


def test_labels_are_counted(base: Base, write: Write) -> None:
    rows = [{"instruction": f"Is {a} even?", "output": ("yes", "no")[a % 4 == 0]} for a in range(100)]
    report = check_file(DataConfig(path=str(write("a.jsonl", rows))), base)
    assert report.data["labels"] == {"yes": 0.75, "no": 0.25}


def test_rows_that_are_too_long_refuse_where_the_preset_drops_none(base: Base, write: Write) -> None:
    rows = [*HEALTHY, FIRST | {"instruction": "x y " * 600}]
    report = check_file(DataConfig(path=str(write("a.jsonl", rows)), on_too_long="refuse"), base)
    assert [item.name for item in report.refusals] == ["too_long"]
    assert report.data["too_long"] == 1 and report.data["lengths"]["row"]["max"] > 512


@pytest.mark.parametrize(("fitting", "left"), [(0, "0 distinct prompts"), (1, "1 distinct prompt;")])
def test_rows_that_are_too_long_leave_nothing_to_train_on(fitting: int, left: str, base: Base, write: Write) -> None:
    rows = HEALTHY[:fitting] + prompts(lambda text: f"{text} {'x y ' * 600}", HEALTHY[fitting:])
    config = DataConfig(path=str(write("a.jsonl", rows)))
    report = check_file(config, base)
    [refusal] = report.refusals
    assert refusal.name == "prompts" and f"{168 - fitting} of 168 rows are over data.max_length=512" in refusal.text
    assert left in refusal.text
    with pytest.raises(DataError, match=f"which leaves {left}") as caught:
        prepare(config, base, write("b", "").with_name("out"))
    assert "data.max_length" in caught.value.next_step


def test_a_check_that_is_half_set_keeps_the_rest() -> None:
    checks = ChecksConfig.model_validate({"leaked": {"action": "warn"}, "duplicates": {"above": 0.5}})
    assert (checks.leaked.above, checks.duplicates.action) == (ChecksConfig().leaked.above, "refuse")
    with pytest.raises(ValidationError, match="less than or equal to 1"):
        ChecksConfig.model_validate({"leaked": {"above": 2}})
    with pytest.raises(ValidationError, match="Extra inputs"):
        ChecksConfig.model_validate({"shuffled": {"above": 0.1}})
