"""Real Prometheus on a real gateway and a real engine: every panel has data, and every alert can be evaluated."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from serving.ports import free_port
from tests.conftest import PipelineRun
from tests.deploy.programs import Prometheus, engine_metrics, nginx_config, program, prometheus_on, running
from tests.deploy.reading import DEPLOY, documents, find
from tests.serving.gateway.conftest import CHAT, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

DASHBOARDS = sorted((DEPLOY / "grafana/dashboards").glob("*.json"))
WITHOUT_DATA = ("turnout_gpu_memory_", "llamacpp:")
"""What needs a GPU, or an engine of the other kind."""


@dataclass(frozen=True)
class Watched:
    """A gateway and an engine that Prometheus asks every second."""

    prometheus: Prometheus
    gateway: str
    name: str

    def ask(self, **more: Any) -> int:
        body = {"model": self.name, "messages": [{"role": "user", "content": "OOMKilled"}], "max_tokens": 6, **more}
        return httpx.post(self.gateway + CHAT, json=body, timeout=120).status_code

    def use(self) -> None:
        """Requests of every kind that the panels show: whole ones, streams, and one that fails."""
        assert self.ask() == self.ask(stream=True) == 200
        assert self.ask(model="nobody") == 404


@pytest.fixture(scope="module")
def watched(pipeline_run: PipelineRun, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    up = pipeline_run.turnout("up", "--json")
    assert up.code == 0, up
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port("127.0.0.1")
    engine_port = int(up.json["engine"].rpartition(":")[2])
    config, url = nginx_config(folder, engine_metrics(port)), f"http://127.0.0.1:{port}"
    gateway = up.json["gateway"].removeprefix("http://")
    with (
        running([program("nginx"), "-c", str(config), "-p", str(folder)], url, folder / "nginx.log"),
        prometheus_on(folder, gateway, f"127.0.0.1:{port}", engine_port) as prometheus,
    ):
        prometheus.wait_for_targets()
        yield Watched(prometheus, up.json["gateway"], pipeline_run.first["name"])


def panels() -> list[tuple[str, str]]:
    """Title and expression of every query, with what Grafana fills in."""
    found = []
    for file in DASHBOARDS:
        board = json.loads(file.read_text("utf-8"))
        values = {
            f"${each['name']}": each["query"] for each in board["templating"]["list"] if each["type"] == "textbox"
        }
        values |= {"$__rate_interval": "30s", "$__range": "5m", "$name": ".*"}
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                expression = target["expr"]
                for name, value in values.items():
                    expression = expression.replace(name, value)
                found.append((f"{board['title']}: {panel['title']}", expression))
    return found


def test_every_panel_has_data(watched: Watched) -> None:
    expected = [(title, text) for title, text in panels() if not any(each in text for each in WITHOUT_DATA)]
    assert len(expected) > 30 and not any("$" in text for _, text in expected)
    empty: list[tuple[str, str]] = []

    def all_have_data() -> bool:
        watched.use()
        empty[:] = [each for each in expected if not watched.prometheus.samples(each[1])]
        return not empty

    try:
        wait_until(all_have_data, "every panel has data", 90)
    except AssertionError:
        assert empty == []
    # The others are queries, too.
    for _, text in panels():
        watched.prometheus.samples(text)


def test_every_alert_can_be_evaluated_and_a_well_site_raises_none(watched: Watched) -> None:
    def evaluated() -> list[dict[str, Any]]:
        rules = [rule for group in watched.prometheus.ask("rules")["groups"] for rule in group["rules"]]
        return rules if all(rule["health"] != "unknown" for rule in rules) else []

    rules = wait_until(evaluated, "every rule was evaluated", 30)
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}
    assert len(rules) == len(list(find(documents(DEPLOY / "prometheus/alerts.yml"), "alert")))
    critical = {rule["name"] for rule in rules if rule["labels"]["severity"] == "critical"}
    # What else runs on this machine may use its memory.
    assert {rule["name"] for rule in rules if rule["state"] == "firing"} & critical <= {"HostMemory"}


def test_the_autoscalers_query_is_one_number(watched: Watched) -> None:
    (scaled,) = documents(DEPLOY / "kubernetes/autoscaling/keda.yaml")
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]
    # On a cluster every series has its namespace.
    assert watched.prometheus.samples(query.replace('{namespace="turnout"}', "")) == [0.0]


def test_dashboards_name_the_source_that_is_provisioned() -> None:
    (source,) = documents(DEPLOY / "grafana/provisioning/datasources/prometheus.yaml")[0]["datasources"]
    (provider,) = documents(DEPLOY / "grafana/provisioning/dashboards/turnout.yaml")[0]["providers"]
    mounts = documents(DEPLOY / "compose.yaml")[0]["services"]["grafana"]["volumes"]
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in mounts
    for file in DASHBOARDS:
        board = json.loads(file.read_text("utf-8"))
        assert {each["uid"] for each in find(board, "datasource")} == {source["uid"]}
        places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
        assert len(set(places)) == len(places) == len({panel["id"] for panel in board["panels"]})
