# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""`turnout promote`, `rollback` and `keys`, in homes without an engine; the registry is real."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from mlflow import MlflowClient

from flows.commands.release import promote, rollback
from registry.releases import read_log
from registry.versions import set_candidate
from tests.conftest import ELSEWHERE, QUIET, Outcome, Turnout
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME, register_one
from turnout.errors import BadInput, Refused, RegistryConflict
from turnout.paths import Home

HEAVY = ("prefect", "torch", "transformers", "vllm", "peft", "trl", "datasets", "bitsandbytes")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"canary": 0}, "canary 0 is not a percent"),
        ({"canary": 101}, "canary 101 is not a percent"),
        ({"shadow": float("nan")}, "shadow nan is not a percent"),
        ({"canary": 5, "shadow": 5}, "exclude each other"),
        ({"steps": "5,100"}, "--steps is for canaries"),
        ({"hold": 5}, "--hold is for canaries"),
        ({"min_requests": 5, "shadow": 5}, "--min-requests is for canaries"),
        ({"max_error_rate": 0}, "--max-error-rate is for canaries"),
        ({"max_latency_ratio": 2}, "--max-latency-ratio is for canaries"),
        ({"sticky": "key"}, "--sticky is for canaries"),
        ({"canary": 5, "steps": "5;100"}, "'5;100' is not a list of percents"),
        ({"canary": 50, "steps": "5,100"}, "not all above the 50 percent"),
        ({"canary": 5, "hold": -1}, "hold_s"),
        ({"version": "latest"}, "'latest' is not a version of bot"),
        ({"version": "other-v3"}, "'other-v3' is not a version of bot"),
        ({"expect": "0"}, "'0' is not a version of bot"),
    ],
)
def test_promotions_that_cannot_be_meant(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        promote("bot", **options)
    assert words in caught.value.message
    assert caught.value.next_step


@pytest.fixture
def candidate(client: MlflowClient, home: Home) -> MlflowClient:
    """v1 is the champion, v2 the candidate."""
    for weights in (b"one", b"two"):
        register_one(client, home, weights=weights)
    promote(NAME, "v1")
    set_candidate(client, NAME, 2)
    return client


def test_promote_and_rollback_answer_with_what_they_did(
    candidate: MlflowClient, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    promote(NAME, json=True, reason="better", expect="v1")
    result = json.loads(capsys.readouterr().out)
    told = ("name", "kind", "from", "to", "changed", "generation", "percent")
    assert [result[key] for key in told] == [NAME, "promote", 1, 2, True, 2, None]
    assert {"seconds", "pending", "warnings", "loaded_now"} <= result.keys()
    rollback(NAME, reason="worse")
    assert f"{NAME}: v2 → v1 in" in capsys.readouterr().out
    assert [(event.kind, event.reason) for event in read_log(candidate, NAME)[1:]] == [
        ("promote", "better"),
        ("rollback", "worse"),
    ]
    with pytest.raises(Refused):
        rollback(NAME)
    with pytest.raises(RegistryConflict, match="at v1 now, not at v2"):
        rollback(NAME, to=f"{NAME}-v2", expect="2")


def test_a_canary_begins_with_its_percent_and_carries_its_limits(
    candidate: MlflowClient, capsys: pytest.CaptureFixture[str]
) -> None:
    promote(NAME, canary=10, hold=60, min_requests=20, max_error_rate=0.1, max_latency_ratio=3, sticky="key")
    assert "10 % of the requests to v2 as a canary beside v1" in capsys.readouterr().out
    event = read_log(candidate, NAME)[-1]
    assert (event.kind, event.champion, event.weights) == ("canary", 1, {2: 10})
    assert event.schedule == {
        "steps": [10, 25, 50, 100],
        "hold_s": 60,
        "min_requests": 20,
        "max_error_rate": 0.1,
        "max_latency_ratio": 3,
        "sticky": "key",
    }
    rollback(NAME)
    assert "v2 gets no more requests beside v1" in capsys.readouterr().out


@pytest.mark.parametrize("options", [{"to": "before"}, {"expect": "v"}])
def test_rollbacks_to_what_is_no_version(options: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="is not a version of bot"):
        rollback("bot", **options)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("promote", "bot", "--canary", "5", "--shadow", "5"), "exclude each other"),
        (("keys", "add", "team"), "--names"),
        (("keys", "add", "Team", "--names", "bot"), "'Team' cannot be a key's id"),
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
    done = subprocess.run(
        [sys.executable, "-c", code, command, "bot", "--json"],
        env={**{key: value for key, value in os.environ.items() if key not in ELSEWHERE}, **QUIET, "TURNOUT_HOME": "h"},
        cwd=turnout.folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    outcome = Outcome(done.returncode, done.stdout, done.stderr)
    assert (outcome.code, outcome.json["error"]["kind"]) == (2, "not_found"), outcome
    assert not outcome.err.strip()


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
