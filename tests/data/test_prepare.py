"""The prepare stage on the bundled base's tokenizer: files, reference, limits and repeatability."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from data.config import DataConfig
from data.prepare import prepare
from data.rows import validation_sample
from tests.data.conftest import Write
from turnout.errors import BadInput, DataError
from turnout.references import Base

FILES = ("check.html", "check.json", "dataset.json", "train.parquet", "validation.parquet")
ROWS = [{"instruction": f"Analyse error {number}", "output": f"Cause: {number}. Fix: it."} for number in range(40)]
LONG = {"instruction": "Analyse " + "this long log " * 60, "output": "Cause: x. Fix: y."}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "datasets" / "key"


def stored(path: Path) -> list[dict[str, Any]]:
    return pyarrow.parquet.read_table(path).to_pylist()


def test_the_files_and_the_reference_agree(base: Base, write: Write, out: Path) -> None:
    seen: list[tuple[int, int]] = []
    dataset = prepare(
        DataConfig(path=str(write("a.jsonl", ROWS))), base, out, lambda done, total: seen.append((done, total))
    )
    train, validation = stored(dataset.train_file), stored(dataset.validation_file)

    assert seen[-1] == (40, 40)
    assert sorted(file.name for file in out.iterdir()) == sorted(FILES)
    assert [child.name for child in out.parent.iterdir()] == ["key"]
    assert (len(train), len(validation)) == (dataset.train_rows, dataset.validation_rows)
    assert dataset.rows == len(train) + len(validation) == 40
    assert dataset.train_tokens == sum(len(row["input_ids"]) for row in train)
    assert dataset.longest == max(len(row["input_ids"]) for row in train + validation)
    assert all(
        len(row["input_ids"]) == len(row["loss_mask"]) and row["loss_mask"][-1] == 1 for row in train + validation
    )
    assert json.loads(train[0]["messages"])[0] == {
        "role": "user",
        "content": json.loads(train[0]["messages"])[0]["content"],
    }
    assert (dataset.source, dataset.format, dataset.template_sha256) == ("a.jsonl", "instruction", base.template_sha256)
    assert str(out.parent) not in (out / "dataset.json").read_text()


def test_the_same_rows_give_the_same_bytes_and_in_another_format_the_same_dataset(
    base: Base, write: Write, out: Path
) -> None:
    one = prepare(DataConfig(path=str(write("a.jsonl", ROWS))), base, out / "1")
    two = prepare(DataConfig(path=str(write("b.json", json.dumps(ROWS)))), base, out / "2")
    chats = [{"prompt": row["instruction"], "completion": row["output"]} for row in ROWS]
    three = prepare(DataConfig(path=str(write("c.jsonl", chats))), base, out / "3")
    assert one.train_file.read_bytes() == two.train_file.read_bytes() == three.train_file.read_bytes()
    assert one.validation_file.read_bytes() == two.validation_file.read_bytes()
    assert one.sha256 == two.sha256 == three.sha256


def test_another_split_is_another_dataset(base: Base, write: Write, out: Path) -> None:
    path = str(write("a.jsonl", ROWS))
    one = prepare(DataConfig(path=path), base, out / "1")
    two = prepare(DataConfig(path=path, validation_fraction=0.5), base, out / "2")
    assert one.sha256 != two.sha256 and one.validation_rows < two.validation_rows


def test_long_rows_are_dropped_and_counted_or_refused_with_their_line(base: Base, write: Write, out: Path) -> None:
    path = str(write("a.jsonl", [ROWS[0], LONG, *ROWS[1:]]))
    dataset = prepare(DataConfig(path=path, max_length=64), base, out)
    assert (dataset.rows, dataset.too_long, dataset.train_rows + dataset.validation_rows) == (41, 1, 40)
    assert dataset.longest <= 64
    assert "1 of 41 rows are over max_length=64 and were dropped" in dataset.notes

    with pytest.raises(DataError, match=r"line 2: \d+ tokens, and data.max_length is 64"):
        prepare(DataConfig(path=path, max_length=64, on_too_long="refuse"), base, out.with_name("refused"))
    assert not out.with_name("refused").exists()


def test_too_few_rows_that_fit_are_refused(base: Base, write: Write, out: Path) -> None:
    path = str(write("a.jsonl", [LONG, ROWS[0]]))
    with pytest.raises(
        DataError, match=r"1 of 2 rows are over data.max_length=64 tokens, which leaves 1 distinct prompt"
    ):
        prepare(DataConfig(path=path, max_length=64), base, out)
    assert not out.parent.exists() or not list(out.parent.iterdir())


def test_six_rows_get_a_validation_row(base: Base, out: Path) -> None:
    dataset = prepare(DataConfig(path="sample:incidents-six"), base, out)
    assert dataset.rows == 6 and dataset.validation_rows >= 1 and dataset.train_rows >= 1
    tiny = prepare(DataConfig(path="sample:incidents-six", validation_fraction=1e-6), base, out.with_name("tiny"))
    assert tiny.validation_rows == 1 and "none of the 6 prompts fell into validation" in tiny.notes[-1]


def test_a_damaged_folder_is_replaced_and_a_whole_one_left_alone(base: Base, write: Write, out: Path) -> None:
    config = DataConfig(path=str(write("a.jsonl", ROWS)))
    dataset = prepare(config, base, out)
    written = dataset.train_file.stat().st_ino
    assert prepare(config, base, out) == dataset and dataset.train_file.stat().st_ino == written

    dataset.validation_file.unlink()
    assert prepare(config, base, out) == dataset and dataset.validation_file.is_file()


def test_what_the_template_refuses_is_named_by_line(base: Base, write: Write, out: Path, tmp_path: Path) -> None:
    folder = tmp_path / "base"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(Path(base.path) / name, folder)
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}x"
    (folder / "chat_template.jinja").write_text(refusing)
    path = write("a.jsonl", [ROWS[0], ROWS[1] | {"system": "Be short."}])
    with pytest.raises(DataError, match=r"a.jsonl, line 2: .*System role not supported"):
        prepare(DataConfig(path=str(path)), dataclasses.replace(base, path=str(folder)), out)

    (folder / "chat_template.jinja").unlink()
    with pytest.raises(BadInput, match="no chat template"):
        prepare(DataConfig(path=str(path)), dataclasses.replace(base, path=str(folder)), out)


def test_a_template_with_todays_date_is_noted(base: Base, write: Write, out: Path, tmp_path: Path) -> None:
    folder = tmp_path / "base"
    shutil.copytree(base.path, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    template = folder / "chat_template.jinja"
    template.write_text("{% set today = strftime_now('%d %b %Y') %}" + template.read_text())
    dated = dataclasses.replace(base, path=str(folder))
    dataset = prepare(DataConfig(path=str(write("a.jsonl", ROWS))), dated, out)
    assert any("today's date" in note for note in dataset.notes)


def test_the_validation_sample_is_picked_by_content(base: Base, write: Write, out: Path) -> None:
    one = prepare(DataConfig(path=str(write("a.jsonl", ROWS)), validation_fraction=0.5), base, out / "1")
    two = prepare(DataConfig(path=str(write("b.jsonl", ROWS[::-1])), validation_fraction=0.5), base, out / "2")
    sample = validation_sample(one, 5)
    assert len(sample) == 5 and sample == validation_sample(two, 5)
    assert validation_sample(one, 3) == sample[:3]
    assert len(validation_sample(one, 10_000)) == one.validation_rows
    for row in sample:
        assert row.prompt_ids == row.input_ids[: row.loss_mask.index(1)]
        assert row.messages[-1]["role"] == "assistant"


def test_a_row_whose_answer_the_template_leaves_out_is_refused_with_its_line(
    base: Base, write: Write, out: Path
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "logs", "arguments": "{}"}}
    asked = [{"role": "user", "content": "why?"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    told = [{"role": "user", "content": "what?"}, {"role": "assistant", "content": "OOM."}]
    path = write("a.jsonl", [{"messages": told}, {"messages": asked}])
    with pytest.raises(DataError, match=r"a.jsonl, line 2: the last answer is empty .* leaves out tool calls"):
        prepare(DataConfig(path=str(path)), base, out)
