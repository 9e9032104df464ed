"""The compose files: whatever a service names is there, and what it starts Turnout with is understood."""

import re
import subprocess
import sys
from typing import Any

import pytest

from flows.presets.loading import load_preset
from serving.config import ServingConfig
from serving.vllm import SHUTDOWN_S
from tests.deploy.reading import DEPLOY, documents, env_file, filled, variables

COMPOSE = DEPLOY / "compose.yaml"
CPU = DEPLOY / "compose.cpu.yaml"
SECRETS = {"POSTGRES_PASSWORD", "TURNOUT_ADMIN_TOKEN", "GRAFANA_ADMIN_PASSWORD"}
OF_THE_USER = {"./presets", "./data", "./certificates"}
ENV = env_file(DEPLOY / ".env.example") | dict.fromkeys(SECRETS, "secret")
STACK: dict[str, Any] = filled(documents(COMPOSE)[0], ENV)
SERVICES: dict[str, dict[str, Any]] = STACK["services"]


def served() -> ServingConfig:
    environment = SERVICES["turnout"]["environment"]
    return load_preset(environment["TURNOUT_PRESET"], environment["TURNOUT_SET"].split()).serving


def seconds(text: str) -> int:
    return int(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def test_every_variable_is_explained_and_no_secret_has_a_default() -> None:
    used = variables(COMPOSE.read_text("utf-8")) | variables(CPU.read_text("utf-8"))
    assert set(used) == set(env_file(DEPLOY / ".env.example"))
    assert {name for name, kind in used.items() if kind == "?"} == SECRETS
    assert not any(env_file(DEPLOY / ".env.example")[name] for name in SECRETS)


def test_volumes_are_declared_and_files_are_there() -> None:
    mounted = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())}
    assert {name for name in mounted if not name.startswith(".")} == set(STACK["volumes"])
    for path in {name for name in mounted if name.startswith(".")} - OF_THE_USER:
        assert (DEPLOY / path).exists(), path


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_waits_for_those_that_can_say_that_they_are_well(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] == "unless-stopped"
    assert "healthcheck" in service or name == "engine-metrics"
    for other, how in service.get("depends_on", {}).items():
        assert how["condition"] != "service_healthy" or "healthcheck" in SERVICES[other]
    # A tag, no latest, and no registry's host: its first part would have a dot.
    image, _, tag = service["image"].partition(":")
    assert tag and tag != "latest" and "." not in image.split("/")[0]
    if build := service.get("build"):
        assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()


def test_only_nginx_is_reached_from_other_machines() -> None:
    open_to_all = {
        name
        for name, service in SERVICES.items()
        if any(not port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    }
    assert open_to_all == {"nginx"}


def test_turnout_starts_with_settings_that_it_knows() -> None:
    config = served()
    assert config.host == "127.0.0.1" and config.gateway.host == "0.0.0.0"  # noqa: S104
    assert SERVICES["nginx"]["environment"]["TURNOUT_GATEWAY"] == f"turnout:{config.gateway.port}"
    assert SERVICES["worker"]["environment"]["TURNOUT_GATEWAYS"] == f"http://turnout:{config.gateway.port}"
    image = (DEPLOY / "docker/Dockerfile.gpu").read_text("utf-8")
    assert f"EXPOSE {config.gateway.port}" in image


def test_stopping_has_the_time_that_draining_takes() -> None:
    needed = 5 + served().gateway.drain_s + 5 + served().replicas * (SHUTDOWN_S + 10)
    assert seconds(SERVICES["turnout"]["stop_grace_period"]) > needed
    assert seconds(SERVICES["nginx"]["stop_grace_period"]) > served().gateway.drain_s


def test_serving_and_training_have_their_gpus_and_shared_memory() -> None:
    for name, gpus in (("turnout", "0"), ("worker", "1")):
        (device,) = SERVICES[name]["deploy"]["resources"]["reservations"]["devices"]
        assert device["device_ids"] == [gpus] and device["capabilities"] == ["gpu"]
        assert SERVICES[name]["shm_size"] == "8gb"


def test_what_is_proven_in_one_home_counts_in_the_other() -> None:
    mounts = [set(SERVICES[name]["volumes"]) for name in ("turnout", "worker")]
    shared = {volume for volume in mounts[0] & mounts[1] if not volume.startswith(".")}
    assert shared == {"proofs:/var/lib/turnout/proofs", "cache:/var/cache/turnout"}


def test_prometheus_asks_services_that_are_there() -> None:
    ports = {"turnout": {served().gateway.port, int(SERVICES["engine-metrics"]["environment"]["TURNOUT_METRICS_PORT"])}}
    scraped = documents(DEPLOY / "prometheus/prometheus.yml")[0]["scrape_configs"]
    targets = {target for job in scraped for static in job["static_configs"] for target in static["targets"]}
    assert targets == {f"{host}:{port}" for host, known in ports.items() for port in known}
    assert SERVICES["engine-metrics"]["network_mode"] == "service:turnout"
    assert {static["labels"]["__metrics_path__"] for static in scraped[1]["static_configs"]} == {
        f"/{served().port}/metrics"
    }
    source = documents(DEPLOY / "grafana/provisioning/datasources/prometheus.yaml")[0]["datasources"][0]
    assert source["url"] == "http://prometheus:9090" and "prometheus" in SERVICES


def test_mlflow_is_started_as_its_command_line_takes_it() -> None:
    from mlflow.cli import server

    mlflow = SERVICES["mlflow"]
    program, command, *options = mlflow["command"]
    known = {option for parameter in server.params for option in parameter.opts}
    assert (program, command) == ("mlflow", "server")
    assert {option.partition("=")[0] for option in options} <= known
    # Without these it answers no client but those on its own machine, and takes SQLAlchemy's choice of a driver.
    assert any(option.startswith("--allowed-hosts=mlflow:5000,") for option in options)
    assert mlflow["environment"]["MLFLOW_BACKEND_STORE_URI"].startswith(
        "postgresql+psycopg2://turnout:secret@postgres:"
    )
    assert SERVICES["turnout"]["environment"]["MLFLOW_TRACKING_URI"] == "http://mlflow:5000"


def test_prefects_database_is_made_beside_mlflows() -> None:
    url = SERVICES["prefect"]["environment"]["PREFECT_API_DATABASE_CONNECTION_URL"]
    made = re.findall(r"CREATE DATABASE (\w+)", (DEPLOY / "postgres/databases.sh").read_text("utf-8"))
    assert [url.rpartition("/")[2]] == made and url.startswith("postgresql+asyncpg://")
    assert SERVICES["postgres"]["environment"]["POSTGRES_DB"] == "mlflow"


def test_prefects_worker_has_the_options_that_it_is_started_with() -> None:
    command = [sys.executable, "-m", "prefect", "worker", "start", "--help"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    script = (DEPLOY / "docker/work.sh").read_text("utf-8")
    (started,) = re.findall(r"^exec prefect worker start (.*)$", script, re.M)
    assert all(option in told for option in started.split() if option.startswith("--"))


def test_without_a_gpu_the_images_and_the_preset_are_others() -> None:
    override = filled(documents(CPU)[0], ENV)["services"]
    for name in ("turnout", "worker"):
        assert override[name]["deploy"] == "reset" and override[name]["image"] == "turnout:cpu"
        assert (DEPLOY / ".." / override[name]["build"]["dockerfile"]).is_file()
        environment = {**SERVICES[name]["environment"], **override[name]["environment"]}
        assert load_preset(environment["TURNOUT_PRESET"], environment["TURNOUT_SET"].split()).base == "bundled"
