"""The same conversations, whatever the format and the file type."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from data.conversation import Rows, turns
from data.read import read_rows
from data.records import BOM
from tests.data.conftest import Write

PAIRS = [("disk full on /var", "Cause: logs. Fix: rotate."), ("디스크 가득 참", 'Cause: "로그". Fix: 정리,\n삭제.')]


def chat(
    question: str,
    answer: str,
    role: str = "role",
    text: str = "content",
    names: tuple[str, str] = ("user", "assistant"),
) -> Any:
    return [{role: names[0], text: question}, {role: names[1], text: answer}]


ROWS: dict[str, list[dict[str, Any]]] = {
    "instruction": [{"instruction": q, "output": a} for q, a in PAIRS],
    "prompt_completion": [{"prompt": q, "completion": a} for q, a in PAIRS],
    "messages": [{"messages": chat(q, a)} for q, a in PAIRS],
    "conversations": [{"conversations": chat(q, a, "from", "value", ("human", "gpt"))} for q, a in PAIRS],
}
EXPECTED = [chat(q, a) for q, a in PAIRS]


def conversations(rows: Rows) -> list[Any]:
    return [turns(row.messages) for row in rows.rows]


def as_csv(rows: list[dict[str, Any]], delimiter: str = ",") -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    for row in rows:
        cells = {key: value if isinstance(value, str) else json.dumps(value) for key, value in row.items()}
        writer.writerow(cells)
    return text.getvalue()


@pytest.mark.parametrize("kind", ROWS)
def test_every_format_in_every_file_type_gives_the_same_conversations(kind: str, write: Write, tmp_path: Path) -> None:
    rows = ROWS[kind]
    parquet = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), parquet)
    files = [
        write("rows.jsonl", rows),
        write("bom.jsonl", BOM + "\n\n".join(json.dumps(row) for row in rows).encode()),
        write("rows.json", json.dumps(rows, indent=1)),
        write("object.json", json.dumps({"version": "1", "data": rows}, ensure_ascii=False)),
        write("really_jsonl.json", rows),
        write("really_json.jsonl", json.dumps(rows)),
        write("no_extension", rows),
        write("rows.csv", as_csv(rows)),
        write("semicolons.csv", as_csv(rows, ";")),
        write("rows.tsv", as_csv(rows, "\t")),
        parquet,
    ]
    for file in files:
        read = read_rows(file)
        assert read.format == kind, file.name
        assert conversations(read) == EXPECTED, file.name


def test_lines_are_those_of_the_file(write: Write) -> None:
    rows = ROWS["instruction"]
    assert [
        row.line for row in read_rows(write("a.jsonl", "\n" + json.dumps(rows[0]) + "\n\n" + json.dumps(rows[1]))).rows
    ] == [2, 4]
    assert [row.line for row in read_rows(write("a.json", json.dumps(rows, indent=1))).rows] == [2, 6]
    assert [row.line for row in read_rows(write("a.csv", 'instruction,output\n"a\nb",x\nc,y\n')).rows] == [2, 4]


def test_alpaca_joins_instruction_and_input_and_keeps_the_system_text(write: Write) -> None:
    row = {"instruction": "Analyse", "input": "exit code 137", "output": "Cause: OOM.", "system": "Be short."}
    [messages] = conversations(read_rows(write("a.jsonl", [row])))
    assert messages == [{"role": "system", "content": "Be short."}, *chat("Analyse\n\nexit code 137", "Cause: OOM.")]


def test_prompt_and_completion_may_be_lists_of_turns(write: Write) -> None:
    before, after = chat("q", "a")
    row = {"prompt": [{"role": "system", "content": "s"}, before], "completion": [after]}
    [messages] = conversations(read_rows(write("a.jsonl", [row])))
    assert messages == [{"role": "system", "content": "s"}, before, after]


def test_tool_turns_are_kept(write: Write, tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "logs", "arguments": '{"pod": "web"}'}}
    spoken = [
        {"role": "developer", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "why"}, {"type": "text", "text": "?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "logs", "content": "OOMKilled"},
        {"role": "assistant", "content": "Out of memory."},
    ]
    kept = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "why?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "logs", "content": "OOMKilled"},
        {"role": "assistant", "content": "Out of memory."},
    ]
    jsonl = read_rows(write("a.jsonl", [{"messages": spoken}]))
    assert conversations(jsonl) == [kept]

    # Parquet gives every turn every field of the column, most of them null.
    pyarrow.parquet.write_table(pa.Table.from_pylist([{"messages": kept}]), tmp_path / "a.parquet")
    assert conversations(read_rows(tmp_path / "a.parquet")) == [kept]


def test_sharegpt_roles(write: Write) -> None:
    said = [("system", "s"), ("human", "q"), ("function_call", "f()"), ("observation", "o"), ("gpt", "a")]
    rows = read_rows(write("a.jsonl", [{"conversations": [{"from": who, "value": text} for who, text in said]}]))
    assert [message.role for message in rows.rows[0].messages] == ["system", "user", "assistant", "tool", "assistant"]


def test_messages_win_over_other_columns_which_are_named(write: Write) -> None:
    rows = read_rows(write("a.jsonl", [{"prompt_id": "7", "prompt": "q", "messages": chat("q", "a")}]))
    assert (rows.format, rows.notes) == ("messages", ("ignored columns: prompt_id",))


def test_a_repeated_key_is_harmless(write: Write) -> None:
    rows = read_rows(write("a.jsonl", '{"instruction": "old", "instruction": "q", "output": "a"}'))
    assert conversations(rows) == [chat("q", "a")]


def test_an_answer_that_is_json_stays_text(write: Write, tmp_path: Path) -> None:
    called = '[{"name": "restart", "arguments": {}}]'
    rows = [{"prompt": "q", "completion": called}, {"prompt": "q2", "completion": '[{"role": "admin"}, {"id": 1}]'}]
    expected = [chat("q", called), chat("q2", rows[1]["completion"])]
    spoken = {"prompt": "q3", "completion": json.dumps(chat("q", "a")[1:])}
    assert conversations(read_rows(write("a.jsonl", [*rows, spoken]))) == [*expected, chat("q3", spoken["completion"])]
    pyarrow.parquet.write_table(pa.Table.from_pylist([*rows, spoken]), tmp_path / "a.parquet")
    for file in (write("a.csv", as_csv([*rows, spoken])), tmp_path / "a.parquet"):
        assert conversations(read_rows(file)) == [*expected, chat("q3", "a")]


def test_a_cell_of_turns_may_be_indented(write: Write) -> None:
    rows: list[dict[str, Any]] = [{"messages": json.dumps(chat("q", "a"), indent=2)}]
    assert conversations(read_rows(write("a.csv", as_csv(rows)))) == [chat("q", "a")]


def test_rows_may_follow_many_blanks(write: Write) -> None:
    text = " \n" * 3000 + json.dumps(ROWS["instruction"])
    assert conversations(read_rows(write("rows", text))) == EXPECTED
