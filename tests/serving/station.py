"""A name of its own in the home of the real pipeline run, with two proven versions, for the tests of releases."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from data.probes import render_probes
from data.rows import ScoredRow, validation_sample
from registry.adapters import fetch
from registry.runs import open_run
from registry.store import connect
from registry.versions import Version, get_version, register, tag_version
from serving.evidence import Evidence
from serving.gateway.records import Worker, list_workers
from serving.placement import ensure_loaded
from serving.records import Engine, serving_engines
from tests.conftest import Outcome, PipelineRun
from turnout.digests import ADAPTER_FILES, adapter_files, adapter_sha256
from turnout.files import read_state
from turnout.paths import Home
from turnout.references import Adapter, Dataset

NAME = "rail"
_FAR = 9.0
"""Nats: the second version is no longer what was trained, so its loss is not what is proven here."""


@dataclass(frozen=True)
class Station:
    """`one` and `two` are proven and unreleased at first."""

    run: PipelineRun
    client: MlflowClient
    one: Version
    two: Version

    @property
    def home(self) -> Home:
        return self.run.turnout.home

    @property
    def engine(self) -> Engine:
        return serving_engines(self.home)[0]

    @property
    def worker(self) -> Worker:
        return list_workers(self.home)[0]

    def turnout(self, *args: str) -> Outcome:
        return self.run.turnout(*args, "--json")


def build_station(run: PipelineRun, folder: Path) -> Station:
    """Register the trained adapter under another name, and beside it one whose weights are a little larger."""
    home = run.turnout.home
    client = connect(home)
    trained = get_version(client, run.first["name"], run.first["version"])
    files = fetch(client, trained, home)
    dataset = read_state(next((home.stages / "prepare").glob("*.json")), Dataset)
    assert dataset is not None
    rows = validation_sample(dataset, 2)
    one = _version(client, home, trained, _scaled(files, folder / "one", 1.0))
    two = _version(client, home, trained, _scaled(files, folder / "two", 1.02))
    engine = serving_engines(home)[0]
    for version in (one, two):
        tag_version(client, NAME, version.number, {"served_base_sha256": engine.base.sha256})
        _prove(home, client, engine, version, rows)
    return Station(run, client, one, two)


def _scaled(source: Path, target: Path, factor: float) -> Path:
    from safetensors.torch import load_file, save_file

    target.mkdir(parents=True)
    config, weights = ADAPTER_FILES
    (target / config).write_bytes((source / config).read_bytes())
    scaled = {
        name: value * factor if "lora_B" in name else value for name, value in load_file(source / weights).items()
    }
    save_file(scaled, target / weights, metadata={"format": "pt"})
    return target


def _version(client: MlflowClient, home: Home, like: Version, folder: Path) -> Version:
    digest, size = adapter_sha256(folder), sum(file.stat().st_size for file in adapter_files(folder))
    manifest = like.manifest.model_copy(update={"adapter_sha256": digest, "adapter_bytes": size})
    shared: dict[str, Any] = {
        key: value for key, value in manifest.model_dump().items() if key in Adapter.__dataclass_fields__
    }
    adapter = Adapter(path=str(folder), bytes=size, steps=0, train_seconds=0.0, **shared)
    run_id = open_run(client, NAME, digest, home=home)
    return register(client, NAME, adapter, manifest, run_id, home=home)


def _prove(home: Home, client: MlflowClient, engine: Engine, version: Version, rows: Sequence[ScoredRow]) -> None:
    evidence = Evidence(rows, version.manifest.eval_loss, lambda: render_probes(engine.base.path)[:3], _FAR)
    ensure_loaded(
        home,
        replace(engine),
        served_name=version.served_name,
        adapter_folder=fetch(client, version, home),
        adapter_sha256=version.manifest.adapter_sha256,
        evidence=evidence,
    )
