"""What bad input gets: a message that names it, the right exit code, no traceback, and nothing left behind."""

import json
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.conftest import Turnout

ROW = {"instruction": "Analyse this error log: OOMKilled", "output": "Cause: memory. Fix: more."}


def refused(turnout: Turnout, *args: str, code: int, **env: str) -> dict[str, str]:
    """Run, and return the error after checking what holds for every refusal."""
    started = time.monotonic()
    outcome = turnout("run", "--json", *args, **env)
    assert time.monotonic() - started < 30  # the promise is 5 s; a shared machine gets leave
    assert outcome.code == code, outcome
    assert "Traceback" not in outcome.err
    assert not list(turnout.home.root.glob("mlruns/*/*")), "something was registered"
    assert not list(turnout.home.root.glob("engines/*")), "an engine was started"
    error: dict[str, str] = outcome.json["error"]
    assert error["message"]
    assert error["next_step"]
    return error


def rows(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["empty"]),
        (rows(ROW), ["one"]),
        (rows(ROW, ROW) + '{"instruction": \n', ["line 3"]),
        (rows({"instruction": "why?"}, ROW), ["line 1"]),
        (rows({"chosen": "a", "rejected": "b"}), ["chosen", "rejected"]),
        (rows({"messages": [{"role": "assistant", "content": "x"}, {"role": "user", "content": "x"}]}), ["line 1"]),
        ("[" * 100_000, ["nest"]),
    ],
)
def test_a_bad_data_file(turnout: Turnout, content: str, words: list[str]) -> None:
    file = turnout.folder / "rows.jsonl"
    file.write_text(content, "utf-8")
    error = refused(turnout, "--set", f"data.path={file}", code=2)
    assert str(file) in error["message"]
    for word in words:
        assert word in error["message"].lower(), error


def test_a_file_of_another_encoding(turnout: Turnout) -> None:
    file = turnout.folder / "rows.jsonl"
    file.write_bytes('{"instruction": "원인?"}\n'.encode("cp949"))
    error = refused(turnout, "--set", f"data.path={file}", code=2)
    assert "UTF-8" in error["message"]
    assert "offset 17" in error["message"]


def test_a_folder_for_a_file(turnout: Turnout) -> None:
    error = refused(turnout, "--set", f"data.path={turnout.folder}", code=2)
    assert "folder" in error["message"]


def test_a_data_file_that_is_not_there(turnout: Turnout) -> None:
    error = refused(turnout, "--set", "data.path=nowhere.jsonl", code=2)
    assert "nowhere.jsonl" in error["message"]


def test_an_unknown_key(turnout: Turnout) -> None:
    error = refused(turnout, "--set", "train.lora_rnak=8", code=2)
    assert "lora_rank" in error["message"]


def test_a_rank_above_the_limit(turnout: Turnout) -> None:
    error = refused(turnout, "--set", "train.lora_rank=64", "--set", "serving.max_lora_rank=16", code=2)
    assert "64" in error["message"]
    assert "16" in error["message"]


@pytest.mark.parametrize("base", ["./nowhere", "/nowhere/model", "nobody/no-such-model"])
def test_a_base_that_is_not_there(turnout: Turnout, base: str) -> None:
    error = refused(turnout, "--set", f"base={base}", code=2)
    assert base in error["message"]


def test_a_port_in_use(turnout: Turnout) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        error = refused(turnout, "--set", f"serving.port={port}", code=1)
    assert str(port) in error["message"]
    assert "serving.port" in error["next_step"]


def test_mlflow_out_of_reach(turnout: Turnout) -> None:
    error = refused(turnout, code=1, MLFLOW_TRACKING_URI="http://127.0.0.1:9")
    assert "127.0.0.1:9" in error["message"]


def test_a_home_that_cannot_be_written(turnout: Turnout, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    error = refused(turnout, code=1, TURNOUT_HOME=str(file / "home"))
    assert str(file) in error["message"]


def test_usage_errors_are_json_too(turnout: Turnout) -> None:
    error = refused(turnout, "--no-such-option", code=2)
    assert "--no-such-option" in error["message"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("ask",), "Missing argument 'name'"),
        (("ask", "bot", "why?", "--temperature", "9"), "'--temperature'"),
        (("run", "--set", "train.epochs=" + "[" * 3000), "nested too deeply"),
        (("run", "--set", "base=~nobody-of-that-name/x"), "~nobody-of-that-name/x"),
        (("run", "--set", "name=\udcff[/x]"), "[/x]"),
    ],
)
def test_a_wrong_argument_is_named(turnout: Turnout, args: tuple[str, ...], words: str) -> None:
    outcome = turnout(*args, "--json")
    assert outcome.code == 2
    assert words in outcome.json["error"]["message"]
    assert "bug" not in outcome.json["error"]["next_step"]


def test_brackets_in_a_message_are_no_markup(turnout: Turnout) -> None:
    outcome = turnout("run", "--set", "name=\\\\[/x] [red]")
    assert outcome.code == 2
    assert "[/x] [red]" in outcome.err
    assert "Traceback" not in outcome.err


def test_the_command_alone_is_a_plea_for_help(turnout: Turnout) -> None:
    outcome = turnout()
    assert (outcome.code, outcome.err) == (0, "")
    assert "versions" in outcome.out


@pytest.mark.parametrize("seconds", [0.3, 1.0])
def test_an_interrupt_is_answered(turnout: Turnout, seconds: float) -> None:
    with turnout.start("run", "--json", TURNOUT_CACHE=str(turnout.folder / "cache")) as process:
        time.sleep(seconds)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out)["error"]["message"] == "Interrupted."
    assert "Traceback" not in err


def test_looking_makes_nothing(turnout: Turnout) -> None:
    assert turnout("status", "--json").json["adapters"] == []
    for command in (("versions", "bot"), ("history", "bot")):
        assert turnout(*command, "--json").json["error"]["kind"] == "not_found"
    assert turnout("ask", "bot", "why?", "--json").code == 1
    assert turnout("down", "--json").json == {"stopped": []}
    assert not turnout.home.root.exists()


def test_people_get_text(turnout: Turnout) -> None:
    outcome = turnout("run", "--set", "train.lora_rnak=8")
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Error:" in outcome.err
    assert "Next:" in outcome.err


def test_every_command_has_help_with_an_example(turnout: Turnout) -> None:
    listing = turnout("--help")
    assert listing.code == 0
    for command in ("run", "ask", "status", "versions", "history", "up", "down"):
        assert command in listing.out
        help_text = turnout(command, "--help")
        assert help_text.code == 0
        assert f"turnout {command}" in help_text.out
