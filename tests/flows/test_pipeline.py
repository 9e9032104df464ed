"""The pipeline for real: training, MLflow, vLLM. One run is shared; the tests go on from it in their order."""

import json
import re

import psutil
import pytest

from data.config import DataConfig
from data.source import resolve
from flows.presets.loading import load_preset
from registry.aliases import read_aliases
from registry.releases import fold, read_log
from registry.store import connect
from registry.versions import get_version
from tasks.bases import resolve_base
from tasks.steps import find_champion, learnt, prepare
from tests.conftest import Outcome, PipelineRun
from tests.data.test_checks import HEALTHY, shuffled

pytestmark = pytest.mark.e2e

KEYS = {
    "name",
    "version",
    "base_eval_loss",
    "eval_loss",
    "served_eval_loss",
    "champion_before",
    "promoted",
    "gate",
    "adapter_sha256",
    "dataset_sha256",
    "trainable_params",
    "total_params",
    "stages",
}
STAGES = ["prepare", "train", "score", "register", "deploy", "gate", "release"]


def test_a_first_run_trains_proves_and_promotes(pipeline_run: PipelineRun) -> None:
    result = pipeline_run.first
    assert result.keys() >= KEYS
    assert list(result["stages"]) == STAGES
    assert not any(stage["cached"] for stage in result["stages"].values())
    assert (result["name"], result["version"], result["promoted"], result["champion_before"]) == ("bot", 1, True, None)
    assert result["eval_loss"] <= 0.5 * result["base_eval_loss"]
    assert abs(result["served_eval_loss"] - result["eval_loss"]) <= 0.02
    assert result["trainable_params"] == 4_884_480
    assert re.fullmatch(r"[0-9a-f]{64}", result["adapter_sha256"])


def test_mlflow_has_the_version_with_its_manifest_and_curve(pipeline_run: PipelineRun) -> None:
    client = connect(pipeline_run.turnout.home)
    version = client.get_model_version("bot", "1")
    assert version.tags["adapter_sha256"] == pipeline_run.first["adapter_sha256"]
    run = client.get_run(version.run_id)
    assert run.info.status == "FINISHED"
    assert run.inputs.dataset_inputs[0].dataset.digest == pipeline_run.first["dataset_sha256"][:36]
    losses = [metric.value for metric in client.get_metric_history(version.run_id, "loss")]
    assert len(losses) > 10
    assert losses[-1] < losses[0]
    artifacts = [artifact.path for artifact in client.list_artifacts(version.run_id, "report")]
    assert artifacts == ["report/bot-v1-lengths.png", "report/bot-v1-loss.png", "report/bot-v1.html"]


def test_the_version_says_what_the_gate_saw_and_its_rows_can_be_had_again(pipeline_run: PipelineRun) -> None:
    version = get_version(connect(pipeline_run.turnout.home), "bot", 1)
    rules = {rule.name: rule for rule in version.manifest.gate}
    assert rules.keys() >= {"better_than_base", "not_worse_than_champion", "proof", "contract", "stop_rate"}
    assert all(rule.passed for rule in rules.values())
    better = rules["better_than_base"]
    assert better.interval and better.figure and better.interval[0] < better.figure < better.interval[1]
    copy = pipeline_run.turnout.folder / "again.jsonl"
    assert pipeline_run.turnout("data", "checkout", "bot-v1", str(copy)).code == 0
    assert copy.read_bytes() == resolve(DataConfig()).read_bytes()


def test_the_log_says_promoted_and_the_aliases_follow(pipeline_run: PipelineRun) -> None:
    client = connect(pipeline_run.turnout.home)
    log = read_log(client, "bot")
    assert [(event.kind, event.champion, event.effective) for event in log] == [("promote", 1, True)]
    assert fold(log).champion == 1
    assert read_aliases(client, "bot") == {"champion": 1}


def test_the_same_command_again_does_nothing(pipeline_run: PipelineRun) -> None:
    again = pipeline_run.again()
    assert again.code == 0, again
    result = again.json
    assert result["version"] == 1
    assert result["promoted"] is True
    assert result["champion_before"] == 1
    cached = {name for name, stage in result["stages"].items() if stage["cached"]}
    assert cached >= {"prepare", "train", "score", "register", "deploy"}
    client = connect(pipeline_run.turnout.home)
    assert [int(version.version) for version in client.search_model_versions("name = 'bot'")] == [1]
    assert len(read_log(client, "bot")) == 1


def test_retraining_sees_whether_anything_changed(pipeline_run: PipelineRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNOUT_HOME", str(pipeline_run.turnout.home.root))
    config = load_preset("tiny-cpu", ["train.max_steps=24"])
    base = resolve_base(config.base)
    champion, dataset = find_champion("bot"), prepare(config.data, base)
    assert champion
    assert learnt(champion, config.train, dataset, base)
    assert not learnt(champion, config.train.model_copy(update={"seed": 1}), dataset, base)
    other = prepare(config.data.model_copy(update={"validation_fraction": 0.3}), base)
    assert not learnt(champion, config.train, other, base)


def test_it_answers_in_the_datasets_format(pipeline_run: PipelineRun) -> None:
    question = "Analyse this error log: redis.exceptions.ConnectionError: Error 111 connecting to cache:6379"
    outcome = pipeline_run.turnout("ask", "bot", question, "--json")
    assert outcome.code == 0, outcome
    answer = outcome.json
    assert re.search(r"Cause: .+ Fix: .+", answer["text"], re.DOTALL)
    assert (answer["version"], answer["backend"], answer["model"]) == (1, "vllm", "bot-v1")
    assert answer["ttft_ms"] > 0
    assert answer["tokens_per_second"] > 0
    assert pipeline_run.turnout("ask", "bot", question, "--version", "v1", "--json").json["text"] == answer["text"]


def test_what_is_not_served_is_named(pipeline_run: PipelineRun) -> None:
    for args, words in ((("nobody", "hello"), "nobody"), (("bot", "hello", "--version", "7"), "bot-v7")):
        outcome = pipeline_run.turnout("ask", *args, "--json")
        assert outcome.code == 2, outcome
        assert words in outcome.json["error"]["message"]
    unknown = pipeline_run.turnout("history", "bott", "--json")
    assert unknown.code == 2
    assert "bot" in unknown.json["error"]["next_step"] + unknown.json["error"]["message"]


def in_sync(outcome: Outcome) -> bool:
    assert outcome.code == 0, outcome
    return bool(outcome.json["in_sync"])


def test_status_versions_and_history_agree(pipeline_run: PipelineRun) -> None:
    turnout = pipeline_run.turnout
    (adapter,) = turnout("status", "--json").json["adapters"]
    assert (adapter["name"], adapter["champion"], adapter["previous"], adapter["in_sync"]) == ("bot", 1, None, True)
    (served,) = adapter["served"]
    assert (served["version"], served["loaded"], served["proof"], served["traffic"]) == (1, True, "proven", 1.0)
    (version,) = turnout("versions", "bot", "--json").json["versions"]
    assert (version["version"], version["aliases"]) == (1, ["champion"])
    (event,) = turnout("history", "bot", "--json").json["events"]
    assert (event["kind"], event["champion"], event["effective"]) == ("promote", 1, True)


@pytest.mark.slow
def test_a_worse_dataset_is_refused_and_traffic_stays(pipeline_run: PipelineRun) -> None:
    turnout = pipeline_run.turnout
    file = turnout.folder / "worse.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in shuffled(HEALTHY, 0)))
    worse = ("--set", f"data.path={file}", "--set", "train.max_steps=8")
    unchecked = pipeline_run.again(*worse)
    assert unchecked.code == 2, unchecked
    assert "\nshuffled: " in unchecked.json["error"]["message"]

    refused = pipeline_run.again(*worse, "--set", "data.checks.shuffled.action=warn")
    assert refused.code == 3, refused
    result = refused.json
    assert (result["version"], result["promoted"], result["champion_before"]) == (2, False, 1)
    failed = {rule["name"]: rule["text"] for rule in result["gate"]["rules"] if not rule["passed"]}
    assert "not_worse_on_champions_rows" in failed  # and perhaps on its own rows, whose answers are as wrong
    client = connect(turnout.home)
    assert read_aliases(client, "bot") == {"champion": 1} and len(read_log(client, "bot")) == 1
    assert failed["not_worse_on_champions_rows"] in client.get_model_version("bot", "2").tags["refused"]
    (adapter,) = turnout("status", "bot", "--json").json["adapters"]
    assert [row["version"] for row in adapter["served"]] == [1]
    assert turnout("ask", "bot", "Why?", "--max-tokens", "4", "--json").json["model"] == "bot-v1"


@pytest.mark.slow
def test_a_killed_engine_is_seen_and_brought_back(pipeline_run: PipelineRun) -> None:
    turnout = pipeline_run.turnout
    pid = turnout("up", "--json").json["pids"]["engine"]
    engine = psutil.Process(pid)
    processes = [engine, *engine.children(recursive=True)]
    for process in processes:
        process.kill()
    psutil.wait_procs(processes, 10)
    assert not in_sync(turnout("status", "--json"))
    up = turnout("up", "--json", MLFLOW_TRACKING_URI="http://127.0.0.1:9")
    assert up.code == 0, up
    assert up.json["loaded"] == ["bot-v1"]
    assert "out of reach" in up.json["problems"][0]
    assert in_sync(turnout("status", "--json"))
