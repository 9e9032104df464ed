"""The Dockerfiles, and the scripts that the images start, run for real on engines that only keep a list."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.presets.loading import load_preset
from serving.gateway.records import list_workers
from serving.ports import free_port
from serving.processes import create_time, read_pid_file
from serving.records import running_engines
from serving.routes import Routes
from tasks.bases import resolve_base
from tests.conftest import ELSEWHERE, QUIET
from tests.deploy.reading import DEPLOY, ROOT
from tests.serving.gateway.conftest import wait_until
from turnout.files import write_json
from turnout.paths import Home
from turnout.references import to_json

pytestmark = pytest.mark.slow

SERVE, WORK = DEPLOY / "docker/serve.sh", DEPLOY / "docker/work.sh"
DOCKERFILES = sorted((DEPLOY / "docker").glob("Dockerfile.*"))
LISTENER = ROOT / "tests/serving/listener.py"
PACKAGES = {"turnout", "data", "registry", "serving", "tasks", "flows"}


class Container:
    """serve.sh in a home of its own, as an image would start it."""

    def __init__(self, folder: Path, *listener: str) -> None:
        self.home = Home(folder / "home")
        # Nothing was released: the base is what there is to serve.
        base, routes = resolve_base("bundled"), folder / "routes.json"
        write_json(routes, to_json(Routes(1, {base.sha256: base})))
        port, gateway = free_port("127.0.0.1"), free_port("127.0.0.1")
        command = ",".join([sys.executable, str(LISTENER), *listener])
        settings = f"serving.base=original serving.command=[{command}] serving.port={port}"
        self.env = {key: value for key, value in os.environ.items() if key not in ELSEWHERE} | {
            **QUIET,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TURNOUT_HOME": str(self.home.root),
            "TURNOUT_PRESET": "tiny-cpu",
            "TURNOUT_ROUTES": str(routes),
            "TURNOUT_SET": f"{settings} serving.gateway.port={gateway} serving.gateway.drain_s=2",
            "TURNOUT_HEALTH": f"http://127.0.0.1:{gateway}/ready",
            "TURNOUT_WATCH_S": "0.5",
        }
        self.log = folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **env: str) -> "subprocess.Popen[bytes]":
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([SERVE], env=self.env | env, stdout=log, stderr=log)
        return self.process

    def healthy(self) -> bool:
        assert self.process and self.process.poll() is None, self.log.read_text()
        return subprocess.run([SERVE, "health"], env=self.env, capture_output=True, timeout=30).returncode == 0

    def processes(self) -> list[int]:
        reconciler = read_pid_file(self.home.reconciler.with_suffix(".pid"))
        pids = [engine.pid for engine in running_engines(self.home)] + [each.pid for each in list_workers(self.home)]
        return pids + ([reconciler[0]] if reconciler else [])

    def stop(self) -> int:
        assert self.process
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(90)


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    made = Container(tmp_path)
    yield made
    if made.process and made.process.poll() is None:
        made.stop()


def test_it_serves_starts_again_what_died_and_leaves_nothing(container: Container) -> None:
    container.start()
    wait_until(lambda: "Gateway:" in container.log.read_text(), "up is done", 180)
    assert container.healthy()
    running = container.processes()
    assert len(running) == 3, running
    before = read_pid_file(container.home.reconciler.with_suffix(".pid"))
    assert before
    os.kill(before[0], signal.SIGKILL)
    pid_file = container.home.reconciler.with_suffix(".pid")
    wait_until(lambda: (read_pid_file(pid_file) or before) != before, "another reconciler runs", 180)
    assert container.healthy()
    running = container.processes()
    assert container.stop() == 0, container.log.read_text()
    assert container.processes() == [] and not any(map(create_time, running))


def test_it_can_be_stopped_while_the_engine_starts(tmp_path: Path) -> None:
    container = Container(tmp_path, "--delay=600")
    container.start()
    (engine,) = wait_until(lambda: running_engines(container.home), "the engine starts", 180)
    assert container.stop() == 0, container.log.read_text()
    assert container.processes() == [] and create_time(engine.pid) is None


def test_settings_that_are_wrong_end_it_with_turnouts_own_code(container: Container) -> None:
    assert container.start(TURNOUT_SET="serving.prot=1").wait(60) == 2
    assert "serving.prot" in container.log.read_text()


def test_the_worker_deploys_the_flows_with_the_preset_that_it_was_given() -> None:
    env = {
        "PATH": os.environ["PATH"],
        "TURNOUT_DEPLOYMENTS": str(ROOT / "prefect.yaml"),
        "TURNOUT_PRESET": "qwen2.5-7b",
        "TURNOUT_SET": "serving.gpu_memory_utilization=0.45 serving.engines=[vllm,llama_cpp]",
    }
    told = subprocess.run([WORK, "deployments"], env=env, capture_output=True, text=True, check=True).stdout
    deployments: dict[str, Any] = {each["name"]: each for each in yaml.safe_load(told)["deployments"]}
    assert set(deployments) == {"pipeline", "watch", "retrain", "promote", "rollback"}
    for name in ("pipeline", "watch", "retrain"):
        given = deployments[name]["parameters"]
        serving = load_preset(given["preset"], given["overrides"]).serving
        assert (serving.gpu_memory_utilization, serving.engines) == (0.45, ("vllm", "llama_cpp"))
    assert "tiny-cpu" not in told
    (trigger,) = deployments["retrain"]["triggers"]
    for setting in env["TURNOUT_SET"].split():
        assert f"'{setting}'" in trigger["parameters"]["overrides"]


@pytest.mark.parametrize("script", [SERVE, WORK, DEPLOY / "postgres/databases.sh"], ids=lambda path: path.name)
def test_scripts_are_programs(script: Path) -> None:
    assert os.access(script, os.X_OK)
    subprocess.run(["sh", "-n", script], check=True)


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_is_made_of_what_is_there_and_runs_as_nobody_special(dockerfile: Path) -> None:
    text = dockerfile.read_text("utf-8").replace("\\\n", " ")
    images = re.findall(r"^FROM (\S+)", text, re.M)
    assert len(images) == 2  # what builds stays behind
    for image in images:
        name, _, tag = image.partition(":")
        assert tag and tag != "latest" and "." not in name.split("/")[0], image
    copied = {word for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.M) for word in line.split()[:-1]}
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    for source in copied:
        assert (ROOT / source).exists(), source
        assert {f"!{source}", f"!{source.split('/')[0]}", f"!{Path(source).parent}/*.sh"} & set(ignored), source
    assert re.findall(r"^USER (.*)$", text, re.M) == ["10001:10001"]
    assert not re.search(r"(TOKEN|PASSWORD|SECRET)", text)
    if "services" not in dockerfile.name:
        assert copied >= PACKAGES and "deploy/docker/serve.sh" in copied
        assert (
            "HEALTHCHECK" in text
            and '["turnout-serve", "health"]' in text
            and re.search(r"--no-deps .*-r requirements", text)
        )
