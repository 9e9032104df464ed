"""`turnout promote`, `rollback` and `keys` as processes, in homes without an engine."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import Turnout

HEAVY = ("prefect", "torch", "transformers", "vllm", "peft", "trl", "datasets", "bitsandbytes")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("promote", "bot", "--canary", "0"), "canary 0 is not a percent"),
        (("promote", "bot", "--canary", "101"), "canary 101 is not a percent"),
        (("promote", "bot", "--shadow", "nan"), "shadow nan is not a percent"),
        (("promote", "bot", "--canary", "5", "--shadow", "5"), "exclude each other"),
        (("promote", "bot", "--steps", "5,100"), "--steps is for canaries"),
        (("promote", "bot", "--hold", "5"), "--hold is for canaries"),
        (("promote", "bot", "--shadow", "5", "--min-requests", "5"), "--min-requests is for canaries"),
        (("promote", "bot", "--max-error-rate", "0"), "--max-error-rate is for canaries"),
        (("promote", "bot", "--max-latency-ratio", "2"), "--max-latency-ratio is for canaries"),
        (("promote", "bot", "--sticky", "key"), "--sticky is for canaries"),
        (("promote", "bot", "--canary", "5", "--steps", "5;100"), "'5;100' is not a list of percents"),
        (("promote", "bot", "--canary", "50", "--steps", "5,100"), "not all above the 50 percent"),
        (("promote", "bot", "--canary", "5", "--hold", "-1"), "hold_s"),
        (("promote", "bot", "latest"), "'latest' is not a version of bot"),
        (("promote", "bot", "other-v3"), "'other-v3' is not a version of bot"),
        (("promote", "bot", "--expect", "0"), "'0' is not a version of bot"),
        (("rollback", "bot", "--to", "before"), "'before' is not a version of bot"),
        (("rollback", "bot", "--expect", "v"), "'v' is not a version of bot"),
        (("keys", "add", "Team"), "--names"),
        (("keys", "add", "Team", "--names", "bot"), "'Team' cannot be a key's id"),
        (("keys", "add", "team", "--names", ","), "'' cannot be a name"),
        (("keys", "remove", "team"), "no key 'team'; known: none"),
    ],
)
def test_wrong_usage_is_answered_with_what_to_do(turnout: Turnout, args: tuple[str, ...], words: str) -> None:
    outcome = turnout(*args, "--json")
    assert outcome.code == 2, outcome
    error = outcome.json["error"]
    assert words in error["message"]
    assert error["next_step"]
    assert not outcome.err


@pytest.mark.parametrize("command", ["promote", "rollback"])
def test_unknown_names_are_not_found_without_prefect_or_a_training_stack(turnout: Turnout, command: str) -> None:
    code = (
        "import sys\nfrom flows.cli import main\n"
        f"try:\n    main()\nfinally:\n    print(*(m for m in {HEAVY!r} if m in sys.modules), file=sys.stderr)"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code, command, "bot", "--json"],
        env={**_clean_environment(), "TURNOUT_HOME": str(turnout.home.root)},
        cwd=turnout.folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    error = _one_object(outcome.stdout)["error"]
    assert (outcome.returncode, error["kind"]) == (2, "not_found"), outcome
    assert outcome.stderr.strip() == ""


def test_help_shows_examples(turnout: Turnout) -> None:
    assert "--canary 5 --hold 600" in turnout("promote", "--help").out
    assert "turnout rollback incidents --to v1" in turnout("rollback", "--help").out


def test_a_key_is_shown_once(turnout: Turnout) -> None:
    added = turnout("keys", "add", "team-a", "--names", "incidents, support", "--json").json
    assert added["key"].startswith("sk-turnout-team-a.")
    listed = turnout("keys", "list", "--json")
    assert added["key"].partition(".")[2] not in listed.out
    assert [(key["id"], key["names"]) for key in listed.json["keys"]] == [("team-a", ["incidents", "support"])]
    assert turnout("keys", "remove", "team-a", "--json").json == {"removed": "team-a", "left": 0}


def test_a_key_for_people_is_alone_on_standard_output(turnout: Turnout) -> None:
    added = turnout("keys", "add", "team-a", "--names", "*")
    assert added.out.strip().startswith("sk-turnout-team-a.")
    assert "once" in added.err
    assert "open to all" in turnout("keys", "remove", "team-a").err


def _clean_environment() -> dict[str, str]:
    import os

    from tests.conftest import ELSEWHERE, QUIET

    return {key: value for key, value in os.environ.items() if key not in ELSEWHERE} | QUIET


def _one_object(text: str) -> dict[str, Any]:
    lines = text.splitlines()
    assert len(lines) == 1, text
    value: dict[str, Any] = json.loads(lines[0])
    return value
