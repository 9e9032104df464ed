"""The Kubernetes manifests: what they name is there, and they agree with the gateway and with each other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.presets.loading import load_preset
from serving.config import GatewayConfig, ServingConfig
from serving.vllm import SHUTDOWN_S
from tests.deploy.programs import engine_metrics
from tests.deploy.reading import DEPLOY, documents, env_file, find, public_paths

FOLDER = DEPLOY / "kubernetes"
KUSTOMIZATION = documents(FOLDER / "kustomization.yaml")[0]
BESIDE = {"autoscaling/hpa.yaml"}
"""An alternative to a file that is listed."""
MANIFESTS = [each for name in [*KUSTOMIZATION["resources"], *BESIDE] for each in documents(FOLDER / name)]
BY_NAME = {(each["kind"], each["metadata"]["name"]): each for each in MANIFESTS}
WORKLOADS = {each["metadata"]["name"]: each for each in MANIFESTS if each["kind"] in ("Deployment", "StatefulSet")}


def pod(name: str) -> dict[str, Any]:
    return dict(WORKLOADS[name]["spec"]["template"]["spec"])


def containers() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for name in WORKLOADS:
        for container in pod(name)["containers"]:
            yield name, pod(name), container


def settings(name: str) -> ServingConfig:
    preset = BY_NAME["ConfigMap", "turnout-settings"]["data"]["TURNOUT_PRESET"]
    return load_preset(preset, BY_NAME["ConfigMap", name]["data"]["TURNOUT_SET"].split()).serving


def selected(labels: dict[str, str]) -> list[str]:
    """The workloads whose pods have these labels."""
    pods = {name: each["spec"]["template"]["metadata"]["labels"] for name, each in WORKLOADS.items()}
    return [name for name, has in pods.items() if labels.items() <= has.items()]


def ports(name: str) -> set[str]:
    return {port["name"] for container in pod(name)["containers"] for port in container.get("ports", ())}


def test_every_file_is_listed_once_and_every_object_is_named_once() -> None:
    files = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.yaml")}
    kept_apart = BESIDE | {"kustomization.yaml", "autoscaling/prometheus-adapter.values.yaml"}
    assert set(KUSTOMIZATION["resources"]) == files - kept_apart
    assert sum(name not in [("HorizontalPodAutoscaler", "turnout")] for name in BY_NAME) == len(MANIFESTS) - 1
    # Kustomize and kubectl differ in what they make of merge keys.
    assert not any(token.value == "<<" for path in FOLDER.rglob("*.yaml") for token in scalars(path))


def scalars(path: Path) -> list[yaml.ScalarToken]:
    return [token for token in yaml.scan(path.read_text("utf-8")) if isinstance(token, yaml.ScalarToken)]


@pytest.mark.parametrize(("workload", "spec", "container"), list(containers()), ids=lambda each: str(each)[:20])
def test_a_container_is_locked_bounded_and_finds_what_it_names(
    workload: str, spec: dict[str, Any], container: dict[str, Any]
) -> None:
    image, _, tag = container["image"].partition(":")
    assert tag and tag != "latest" and "." not in image.split("/")[0]
    assert spec["securityContext"]["runAsNonRoot"] is True and spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False  # else the service named prefect sets PREFECT_PORT
    locked = container["securityContext"]
    assert locked["readOnlyRootFilesystem"] and not locked["allowPrivilegeEscalation"]
    assert locked["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["requests"].keys() == {"cpu", "memory"} and container["resources"]["limits"]["memory"]
    known = {volume["name"] for volume in spec["volumes"]}
    known |= {claim["metadata"]["name"] for claim in WORKLOADS[workload]["spec"].get("volumeClaimTemplates", ())}
    assert {mount["name"] for mount in container["volumeMounts"]} <= known
    own_ports = {port["name"] for port in container.get("ports", ())}
    assert {probe["port"] for probe in find(container, "httpGet")} <= own_ports


def test_settings_secrets_and_volumes_that_are_named_are_there() -> None:
    secrets = env_file(FOLDER / "secrets.env.example")
    (generated,) = KUSTOMIZATION["secretGenerator"]
    assert generated["envs"] == ["secrets.env"] and not any(secrets.values())
    for each in find(MANIFESTS, "secretKeyRef"):
        assert each["name"] == generated["name"] and each["key"] in secrets
    for each in find(MANIFESTS, "configMapRef"):
        assert ("ConfigMap", each["name"]) in BY_NAME
    for name in WORKLOADS:
        for volume in pod(name)["volumes"]:
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in BY_NAME
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in BY_NAME


def test_services_policies_and_monitors_select_pods_and_ports_that_exist() -> None:
    for (kind, name), each in BY_NAME.items():
        if kind == "Service":
            (chosen,) = selected(each["spec"]["selector"])
            assert {port["targetPort"] for port in each["spec"].get("ports", ())} <= ports(chosen), name
        if kind in ("PodDisruptionBudget", "PodMonitor"):
            assert selected(each["spec"]["selector"]["matchLabels"]) == ["turnout"]
        if kind == "NetworkPolicy" and each["spec"]["podSelector"]:
            (chosen,) = selected(each["spec"]["podSelector"]["matchLabels"])
            for rule in each["spec"]["ingress"]:
                assert {port["port"] for port in rule["ports"]} <= ports(chosen), name
                for source in find(rule, "podSelector"):
                    assert selected(source["matchLabels"])
    monitored = BY_NAME["PodMonitor", "turnout"]["spec"]["podMetricsEndpoints"]
    assert {each["port"] for each in monitored} == ports("turnout")
    for workload in WORKLOADS.values():
        assert workload["spec"].get("serviceName", workload["metadata"]["name"]) in {
            name for kind, name in BY_NAME if kind == "Service"
        }


def test_probes_ask_what_the_gateway_answers() -> None:
    serving = pod("turnout")["containers"][0]
    assert serving["readinessProbe"]["httpGet"]["path"] == "/ready"
    # Before the first release nothing is ready: that is no reason to start the pod anew.
    assert {serving[each]["httpGet"]["path"] for each in ("startupProbe", "livenessProbe")} == {"/health"}
    assert {"/ready", "/health"} <= public_paths()
    startup = serving["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] > settings("turnout-serving").ready_timeout_s
    assert serving["ports"][0]["containerPort"] == settings("turnout-serving").gateway.port


def test_a_pod_has_the_time_to_drain() -> None:
    config, spec = settings("turnout-serving"), pod("turnout")
    waits = int(spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
    stops = 5 + config.gateway.drain_s + 5 + config.replicas * (SHUTDOWN_S + 10)
    assert spec["terminationGracePeriodSeconds"] > waits + stops


def test_an_engine_has_its_gpus_and_shared_memory_and_listens_on_loopback() -> None:
    for workload, name in (("turnout", "turnout-serving"), ("turnout-worker", "turnout-training")):
        config, spec = settings(name), pod(workload)
        assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == str(config.tensor_parallel)
        (shm,) = [volume["emptyDir"] for volume in spec["volumes"] if volume["name"] == "shm"]
        assert shm["medium"] == "Memory"
        assert {"name": "shm", "mountPath": "/dev/shm"} in spec["containers"][0]["volumeMounts"]
        assert config.host == "127.0.0.1"
    # Proofs hold for one number of parallel parts.
    assert settings("turnout-serving").tensor_parallel == settings("turnout-training").tensor_parallel


def test_the_ingress_lets_through_what_nginx_does() -> None:
    ingress = BY_NAME["Ingress", "turnout"]
    (rule,) = ingress["spec"]["rules"]
    assert {path["path"] for path in rule["http"]["paths"]} == public_paths()
    assert {path["pathType"] for path in rule["http"]["paths"]} == {"Exact"}
    assert {each["name"] for each in find(rule, "service")} == {"turnout"}
    assert rule["host"] in ingress["spec"]["tls"][0]["hosts"]
    told = {key.rpartition("/")[2]: value for key, value in ingress["metadata"]["annotations"].items()}
    assert told["proxy-buffering"] == "off" and told["proxy-body-size"] == str(GatewayConfig().max_body_bytes)
    assert int(told["proxy-read-timeout"]) > GatewayConfig().request_timeout_s


def test_both_autoscalers_scale_the_engines_by_waiting_requests() -> None:
    scaled, pods = BY_NAME["ScaledObject", "turnout"]["spec"], BY_NAME["HorizontalPodAutoscaler", "turnout"]["spec"]
    assert scaled["scaleTargetRef"] == pods["scaleTargetRef"]
    assert (scaled["scaleTargetRef"]["kind"], scaled["scaleTargetRef"]["name"]) in BY_NAME
    (trigger,), (metric,) = scaled["triggers"], pods["metrics"]
    assert "sum(vllm:num_requests_waiting" in trigger["metadata"]["query"]
    assert trigger["metadata"]["threshold"] == metric["pods"]["target"]["averageValue"]
    (rule,) = documents(FOLDER / "autoscaling/prometheus-adapter.values.yaml")[0]["rules"]["custom"]
    assert rule["name"]["as"] == metric["pods"]["metric"]["name"]
    assert rule["seriesQuery"].startswith("vllm:num_requests_waiting{")
    assert scaled["minReplicaCount"] == pods["minReplicas"] == WORKLOADS["turnout"]["spec"]["replicas"]
    assert scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == pods["behavior"]


def test_releases_are_told_to_the_pods_that_are_always_there() -> None:
    told = BY_NAME["ConfigMap", "turnout-training"]["data"]["TURNOUT_GATEWAYS"].split(",")
    port, least = (
        settings("turnout-serving").gateway.port,
        BY_NAME["ScaledObject", "turnout"]["spec"]["minReplicaCount"],
    )
    service = WORKLOADS["turnout"]["spec"]["serviceName"]
    assert told == [f"http://turnout-{index}.{service}:{port}" for index in range(least)]
    assert BY_NAME["Service", service]["spec"]["clusterIP"] == "None"


def test_copies_of_other_files_are_true() -> None:
    rules = documents(DEPLOY / "prometheus/alerts.yml")[0]
    assert BY_NAME["PrometheusRule", "turnout"]["spec"] == rules
    assert BY_NAME["ConfigMap", "engine-metrics"]["data"]["default.conf"] == engine_metrics(9400)
    compose = documents(DEPLOY / "compose.yaml")[0]["services"]
    for service, workload in (("mlflow", "mlflow"), ("prefect", "prefect")):
        assert pod(workload)["containers"][0]["args"] == compose[service]["command"]
    assert BY_NAME["ConfigMap", "postgres-databases"]["data"]["databases.sql"] == "CREATE DATABASE prefect;"
