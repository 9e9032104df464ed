"""The alert rules by promtool: they are sound, and each is seen firing."""

import subprocess

from tests.deploy.programs import program
from tests.deploy.reading import DEPLOY, documents, find

FOLDER = DEPLOY / "prometheus"


def promtool(*args: str) -> str:
    done = subprocess.run([program("promtool"), *args], capture_output=True, text=True, cwd=FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_settings_and_rules_are_sound() -> None:
    promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", "--lint=all", "--lint-fatal", "alerts.yml")


def test_alerts_fire_when_they_should() -> None:
    promtool("test", "rules", "alerts_test.yml")


def test_every_alert_is_seen_firing_and_says_what_to_do() -> None:
    rules = [rule for group in documents(FOLDER / "alerts.yml")[0]["groups"] for rule in group["rules"]]
    cases = [case for cases in find(documents(FOLDER / "alerts_test.yml")[0], "alert_rule_test") for case in cases]
    assert {rule["alert"] for rule in rules} == {case["alertname"] for case in cases if case["exp_alerts"]}
    for rule in rules:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "next_step"}
