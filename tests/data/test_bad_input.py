"""Whatever is wrong with a source, the error names the file, the place, the value and the next step."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from data.check import check_source
from data.config import DataConfig
from data.read import read_rows
from data.records import MAX_ROW_BYTES
from data.source import resolve
from tests.data.conftest import Write
from turnout.errors import DataError

GOOD = '{"instruction": "q", "output": "a"}\n'
DEEP = "[" * 200_000


def alpaca(**changes: Any) -> str:
    row = {"instruction": "q", "output": "a"} | changes
    return GOOD + json.dumps({key: value for key, value in row.items() if value is not ...})


def spoken(*turns: tuple[Any, Any]) -> str:
    return json.dumps({"messages": [{"role": role, "content": content} for role, content in turns]})


BAD: dict[str, tuple[str, str | bytes, str]] = {
    "empty": ("a.jsonl", "", "is empty (0 bytes)"),
    "only blanks": ("a.json", "\ufeff \n\n", "is empty (6 bytes)"),
    "empty list": ("a.json", "[]", "holds no rows"),
    "csv header alone": ("a.csv", "instruction,output\n", "holds no rows"),
    "broken line": ("a.jsonl", GOOD + '{"instruction": \n', "line 2: broken JSON"),
    "two values in a line": ("a.jsonl", GOOD + GOOD.strip() + GOOD, "line 2: broken JSON: extra data (column 36)"),
    "broken json": ("a.json", '[\n{"instruction": "q",\n "output" "a"}]', "line 3: broken JSON: Expecting ':'"),
    "cut json": ("a.json", '[{"instruction": "q", "output": "a"},\n', "line 2: broken JSON"),
    "trailing comma": ("a.json", '[{"instruction": "q", "output": "a"},\n]', "line 2: broken JSON: a value expected"),
    "data after the list": ("a.json", '[{"instruction": "q", "output": "a"}]\nx', "line 2: broken JSON: extra data"),
    "several lists": ("a.json", '{"train": [], "test": []}', "holds 2 lists ('test', 'train')"),
    "not utf-8": ("a.jsonl", GOOD.encode() + b'{"instruction": "caf\xe9"}', "is not UTF-8: byte 0xe9 at offset 56"),
    "not utf-8 after a bom": ("a.json", b'\xef\xbb\xbf["\xff"]', "byte 0xff at offset 5"),
    "utf-16": ("a.jsonl", GOOD.encode("utf-16"), "offset 0 (it looks like UTF-16)"),
    "utf-16, unknown name": ("a.data", GOOD.encode("utf-16"), "offset 0 (it looks like UTF-16)"),
    "latin-1 csv": ("a.csv", "instruction,output\nq,é\n".encode("latin-1"), "byte 0xe9 at offset 21"),
    "deep jsonl": ("a.jsonl", GOOD + DEEP, "line 2: JSON nested too deeply"),
    "deep json": ("a.json", DEEP, "line 1: JSON nested too deeply"),
    "deep tool calls": ("a.jsonl", GOOD.replace('"a"', '"a", "x": ' + "[" * 5000 + "]" * 5000), "nested too deeply"),
    "NaN": ("a.jsonl", '{"instruction": "q", "output": NaN}', "line 1: broken JSON: NaN is not a JSON value"),
    "Infinity": ("a.json", '[{"instruction": "q",\n"output": -Infinity}]', "-Infinity is not a JSON value"),
    "huge number": ("a.jsonl", '{"output": ' + "9" * 5000 + "}", "line 1: broken JSON"),
    "number": ("a.jsonl", alpaca(output=3.5), "line 2: the answer ('output') is a number (3.5), not text"),
    "boolean": ("a.jsonl", alpaca(instruction=True), "line 2: the prompt ('instruction') is a boolean (true)"),
    "list for text": ("a.jsonl", alpaca(input=["x"]), "line 2: 'input' is a list, not text"),
    "no answer": ("a.jsonl", alpaca(output=...), "line 2: the answer ('output') is missing"),
    "null answer": ("a.jsonl", alpaca(output=None), "line 2: the answer ('output') is missing"),
    "blank answer": ("a.jsonl", alpaca(output=" \n"), "line 2: the answer ('output') is blank"),
    "no prompt": ("a.jsonl", alpaca(instruction=...), "line 2: the prompt ('instruction') is missing"),
    "blank csv answer": ("a.csv", "prompt,completion\nq,a\nq,\n", "line 3: the answer ('completion') is blank"),
    "row is a list": ("a.jsonl", GOOD + "[1]", "line 2: a list, not an object"),
    "surrogate": ("a.jsonl", GOOD + '{"instruction": "\\ud800", "output": "a"}', "lone surrogate ('\\ud800')"),
    "surrogate key": ("a.jsonl", '{"\\ud800": 1}', "its keys are '\\ud800'"),
    "unknown keys": ("a.jsonl", '{"question": "q", "answer": "a"}', "its keys are 'question', 'answer'; known: "),
    "ends with the user": ("a.jsonl", spoken(("assistant", "a"), ("user", "q")), "ends with a user turn"),
    "only an answer": ("a.jsonl", spoken(("assistant", "a")), "there is no prompt"),
    "blank question": ("a.jsonl", spoken(("user", " "), ("assistant", "a")), "there is no prompt"),
    "blank turn": ("a.jsonl", spoken(("user", "q"), ("assistant", "\t")), "turn 2 (assistant) is blank"),
    "unknown role": ("a.jsonl", spoken(("user", "q"), ("wizard", "a")), "turn 2 has the role text ('wizard')"),
    "no role": ("a.jsonl", '{"messages": [{"content": "q"}]}', "turn 1 has the role null"),
    "turn is text": ("a.jsonl", '{"messages": ["q"]}', "turn 1 is text ('q')"),
    "no turns": ("a.jsonl", '{"messages": []}', "'messages' is an empty list"),
    "messages is text": ("a.jsonl", '{"messages": "q"}', "'messages' is text ('q'), not a list of turns"),
    "picture": ("a.jsonl", spoken(("user", [{"type": "image_url"}]), ("assistant", "a")), "only parts of type text"),
    "weight 0": ("a.jsonl", '{"messages": [{"role": "assistant", "content": "a", "weight": 0}]}', "has weight 0"),
    "empty completion": ("a.jsonl", '{"prompt": "q", "completion": []}', "'completion') is an empty list"),
    "preference": ("a.jsonl", '{"prompt": "q", "chosen": "a", "rejected": "b"}', "line 1: a preference row"),
    "mixed": ("a.jsonl", GOOD * 2 + '{"prompt": "q"}', "mixes formats, first seen: instruction (line 1), prompt_comp"),
    "ragged csv": ("a.csv", "instruction,output\nq,a\nq,a,b\n", "line 3: 3 fields where the header has 2"),
    "short csv row": ("a.csv", "instruction,output\nq\n", "line 2: 1 fields where the header has 2"),
    "open quote": ("a.csv", 'instruction,output\nq,"a\nq,a\n', "line 2: a quoted field that starts here"),
    "huge csv field": ("a.csv", f'instruction,output\nq,{"x" * (MAX_ROW_BYTES + 1)}\n', "line 2: a field longer than"),
    "same column twice": ("a.csv", "instruction,output,output\n", "the header names 'output' twice"),
    "huge line": ("a.jsonl", GOOD + '{"instruction": "' + "x" * MAX_ROW_BYTES, "line 2: longer than 4,194,304 bytes"),
    "huge json row": ("a.json", '[{"x": "' + "x" * MAX_ROW_BYTES + '"}]', "line 1: longer than 4,194,304"),
    "unknown extension": ("a.xlsx", "rows", "has the extension .xlsx, and its content shows no format"),
    "compressed": ("a.jsonl.gz", b"\x1f\x8b\x08\x00", "is compressed (gzip)"),
    "not parquet": ("a.parquet", "rows", "is not a whole Parquet file"),
    "cut parquet": ("a.parquet", b"PAR1" + b"\0" * 64, "is not a whole Parquet file"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), BAD.values(), ids=BAD)
def test_bad_files(name: str, content: str | bytes, message: str, write: Write) -> None:
    path = write(name, content)
    with pytest.raises(DataError) as caught:
        read_rows(path)
    assert message in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.next_step
    caught.value.message.encode()  # what is printed or stored must be valid text itself


def test_five_problems_are_listed_and_all_counted(write: Write) -> None:
    path = write("a.jsonl", [{"instruction": "q"}] * 7)
    with pytest.raises(DataError) as caught:
        read_rows(path)
    assert "7 problems, the first 5:\n  line 1: " in caught.value.message
    assert "line 5: " in caught.value.message and "line 6" not in caught.value.message


def test_parquet_problems_are_numbered_by_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pa.table({"instruction": ["q", "q"], "output": ["a", None]}), path)
    with pytest.raises(DataError, match=r"row 2: the answer \('output'\) is missing"):
        read_rows(path)


def test_a_cut_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pa.table({"instruction": ["q"] * 99, "output": ["a"] * 99}), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="not a whole Parquet file"):
        read_rows(path)


@pytest.mark.parametrize("rows", [1, 3])
def test_one_distinct_prompt_is_refused(rows: int, write: Write) -> None:
    path = write("a.jsonl", [{"instruction": "q", "output": f"a{number}"} for number in range(rows)])
    with pytest.raises(DataError, match="one distinct prompt; at least 2 are needed"):
        check_source(DataConfig(path=str(path)))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no/such.jsonl", r"no/such.jsonl is not there \(/"),
        ("/no/such/file/anywhere", "is not there"),
        ("sample:nope", "no sample 'nope'; there are: incidents, incidents-six"),
        (".", "the folder . holds no data file"),
        ("~nobody-of-that-name/rows.jsonl", "cannot be a path"),
        ("x" * 300, "cannot be a path: .*File name too long"),
        ("/dev/null", "is not a regular file"),
    ],
)
def test_sources_that_are_not_there(path: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_source(DataConfig(path=path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file(write: Write) -> None:
    path = write("a.jsonl", GOOD)
    path.chmod(0)
    with pytest.raises(DataError, match="cannot be read: Permission denied"):
        read_rows(path)


def test_a_hub_that_is_out_of_reach_is_told_within_five_seconds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("TURNOUT_CACHE", str(tmp_path))
    start = time.monotonic()
    with pytest.raises(DataError, match="owner/name is neither a file here"):
        check_source(DataConfig(path="owner/name"))
    assert time.monotonic() - start < 5


def test_with_the_hub_out_of_reach_the_revision_that_was_fetched_last_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("TURNOUT_CACHE", str(tmp_path))
    for age, name in enumerate(("b" * 12 + "-train", "a" * 12 + "-train", "c" * 12 + "-test")):
        file = tmp_path / "datasets" / f"owner--name@{name}.parquet"
        file.parent.mkdir(exist_ok=True)
        file.touch()
        os.utime(file, (1e9 - age, 1e9 - age))
    assert resolve(DataConfig(path="owner/name")).name == f"owner--name@{'b' * 12}-train.parquet"
    assert "The hub is out of reach" in caplog.text
