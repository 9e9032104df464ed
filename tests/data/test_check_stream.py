"""The streaming checker: broken rows, folders, every kind of file, and the same report from many processes."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from data.check import check_file
from data.checks.page import report_page
from data.checks.stream import check_stream
from data.config import DataConfig
from data.prepare import prepare
from data.read import read_rows
from tests.data.conftest import Write
from turnout.errors import DataError
from turnout.references import Base


def row(number: int) -> dict[str, str]:
    answer = f"Cause: Queue {number % 89} is full. Fix: Drain queue {number % 89}."
    return {"instruction": f"Explain fault {number} of queue {number % 89} on host {number % 7}", "output": answer}


ROWS = [row(number) for number in range(60)]


def test_broken_rows_are_counted_and_named(base: Base, write: Write) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "logs", "arguments": "{}"}}
    lines = [json.dumps({"messages": [{"role": "user", "content": r["instruction"]},
                                      {"role": "assistant", "content": r["output"]}]}) for r in ROWS]  # fmt: skip
    silent = {"messages": [{"role": "user", "content": "why?"}, {"role": "assistant", "tool_calls": [call]}]}
    lines[3:3] = ['{"messages": ', json.dumps({"messages": []}), json.dumps(silent)]
    report = check_file(DataConfig(path=str(write("a.jsonl", "\n".join(lines)))), base)
    assert (report.data["rows"], report.data["broken"], report.data["format"]) == (60, 3, "messages")
    [broken] = report.refusals
    assert broken.name == "broken"
    assert [example.partition(":")[0] for example in broken.examples] == ["line 4", "line 5", "line 6"]
    assert "leaves out tool calls" in broken.examples[2]
    assert report.data["problems"] == ["broken: 3 rows cannot be read or trained on"]


def test_a_file_of_broken_rows_alone(base: Base, write: Write) -> None:
    report = check_file(DataConfig(path=str(write("a.jsonl", [r | {"output": ""} for r in ROWS]))), base)
    assert (report.data["rows"], report.data["broken"], report.data["lengths"]) == (0, 60, {})
    assert [item.name for item in report.refusals] == ["broken", "prompts"]
    assert "refused" in report_page(report.data)


def test_one_distinct_prompt_is_refused(base: Base, write: Write) -> None:
    report = check_file(DataConfig(path=str(write("a.jsonl", [{"instruction": "q", "output": "a"}]))), base)
    assert [item.name for item in report.refusals] == ["prompts"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"instruction": "caf\xe9"}', "is not UTF-8: byte 0xe9 at offset 20"),
        ('{"prompt": "q", "chosen": "a", "rejected": "b"}', "a preference row"),
        ('{"instruction": "q", "output": "a"}\n{"prompt": "q", "completion": "a"}', "mixes formats"),
        ("", "is empty"),
    ],
)
def test_what_is_no_dataset_at_all(content: str | bytes, message: str, base: Base, write: Write) -> None:
    with pytest.raises(DataError, match=message):
        check_file(DataConfig(path=str(write("a.jsonl", content))), base)


def test_a_folder_is_read_in_the_order_of_its_names(base: Base, tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    write_rows(folder / "b.jsonl", ROWS[30:])
    write_rows(folder / "a.csv", ROWS[:30])
    (folder / "notes.txt").write_text("not rows")
    read = read_rows(folder)
    assert [r.messages[0].content for r in read.rows] == [r["instruction"] for r in ROWS]
    assert [read.where(read.rows[at]) for at in (0, 30)] == ["a.csv, line 2", "b.jsonl, line 1"]

    config = DataConfig(path=str(folder))
    assert check_file(config, base).data["rows"] == prepare(config, base, tmp_path / "out").rows == 60
    write_rows(folder / "c.jsonl", [ROWS[0], ROWS[1] | {"output": ""}])
    report = check_file(config, base)
    assert [finding.examples for finding in report.refusals] == [
        ("c.jsonl, line 2: the answer ('output') is blank",)
    ]  # fmt: skip
    assert {f.name: f for f in report.findings}["duplicates"].examples == ("c.jsonl, line 1 repeats a.csv, line 2",)
    write_rows(folder / "d.parquet", [{"prompt": "q", "completion": "a"}])
    with pytest.raises(DataError, match=r"first seen: instruction \(a.csv, line 2\), prompt_completion \(d.parquet, r"):
        read_rows(folder)


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        text = json.dumps(rows) if path.suffix == ".json" else "".join(json.dumps(r) + "\n" for r in rows)
        path.write_text(text)
    return path


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "parquet"])
def test_every_kind_of_file_gives_the_same_figures(suffix: str, base: Base, tmp_path: Path) -> None:
    first = check_file(DataConfig(path=str(write_rows(tmp_path / "one.jsonl", ROWS))), base).data
    other = check_file(DataConfig(path=str(write_rows(tmp_path / f"two.{suffix}", ROWS))), base).data
    for report in (first, other):  # what names the file and its lines
        del report["file"], report["checks"]
    assert other == first


def test_worker_processes_and_the_prepare_stage_report_the_same(base: Base, write: Write, tmp_path: Path) -> None:
    rows = [row(number) for number in range(4400)]
    rows[4100:4100] = [rows[7], rows[8] | {"instruction": rows[8]["instruction"].upper()}]
    config, source = DataConfig(path=str(write("a.jsonl", rows))), tmp_path / "a.jsonl"
    seen: list[tuple[int, float]] = []
    streamed = check_stream(source, "a.jsonl", config, base, lambda *done: seen.append(done), workers=2)
    assert streamed.data["duplicates"] == 1 and streamed.data["rows"] == 4402
    assert "line 4101 repeats line 8" in {f.name: f for f in streamed.findings}["duplicates"].examples
    assert seen[-1] == (4402, 1.0) and [done for done, _ in seen] == sorted(done for done, _ in seen)
    dataset = prepare(config, base, tmp_path / "out")
    assert json.loads((Path(dataset.path) / "check.json").read_text()) == streamed.data


def test_the_page_stands_alone_and_escapes_what_it_shows(base: Base, write: Write) -> None:
    rows = [*ROWS, ROWS[0] | {"instruction": "<script>alert(1)</script> bob@corp.com"}]
    rows += [{"instruction": f"q{n}", "output": "<b>yes</b>"} for n in range(900)]
    page = report_page(check_file(DataConfig(path=str(write("<a>.jsonl", rows))), base).data)
    assert "<script" not in page and "<b>" not in page and "&lt;a&gt;.jsonl" in page
    assert page.count("data:image/png;base64,") >= 2 and "http" not in page.replace("http-equiv", "")
