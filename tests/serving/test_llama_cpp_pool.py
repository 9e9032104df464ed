# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""Releases on a real llama.cpp engine alone, behind the real gateway, under a stream of requests; and both kinds."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest
from mlflow import MlflowClient

from data.probes import render_probes
from data.rows import validation_sample
from registry.adapters import fetch
from registry.runs import open_run
from registry.versions import Version, register, tag_version
from serving.config import ServingConfig
from serving.engine_life import stop_engine
from serving.evidence import Evidence, KeptRow
from serving.gateway.records import list_workers
from serving.placement import ensure_loaded
from serving.ports import free_port
from serving.proof import Proof
from serving.records import Engine, serving_engines
from serving.releasing import promote, rollback
from serving.stack import Stack, down, up
from serving.status import compare
from tasks.bases import resolve_base
from tests.conftest import PipelineRun
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME, make_manifest
from tests.registry.material import make_adapter as describe_adapter
from tests.serving.material import make_adapter
from turnout.digests import adapter_sha256
from turnout.paths import Home
from turnout.references import Base

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

_FAR = 20.0
"""Nats: the adapters are random, and nobody knows their loss."""


def register_random(client: MlflowClient, home: Home, base: Base, folder: Path, seed: int) -> Version:
    made = make_adapter(folder, Path(base.path), scale=0.05, seed=seed)
    adapter = replace(describe_adapter(home.root / "any"), path=str(made), adapter_sha256=adapter_sha256(made))
    run_id = open_run(client, NAME, adapter.adapter_sha256, home=home)
    version = register(client, NAME, adapter, make_manifest(adapter), run_id, home=home)
    tag_version(client, NAME, version.number, {"served_base": base.name, "served_base_sha256": base.sha256})
    return version


def deploy(client: MlflowClient, home: Home, engine: Engine, version: Version) -> Proof:
    probes = render_probes(engine.base.path)[:2]
    ids = probes[0][1]
    end = engine.base.eos_ids[0]
    rows = [KeptRow("row", [*ids, *ids[:7], end], [0] * len(ids) + [1] * 8)]
    placed = ensure_loaded(
        home,
        engine,
        served_name=version.served_name,
        adapter_folder=fetch(client, version, home),
        adapter_sha256=version.manifest.adapter_sha256,
        evidence=Evidence(rows, 5.0, lambda: probes, _FAR),
    )
    assert placed.proven_now and placed.proof
    return placed.proof


@dataclass
class Stream:
    """What the clients were answered: by which versions, and what went wrong."""

    versions: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@contextmanager
def streaming(url: str, clients: int = 3) -> Iterator[Stream]:
    """Clients that ask for the name one streamed answer after the other until the block ends."""
    stream, over = Stream(), threading.Event()

    def ask() -> None:
        body = {"model": NAME, "messages": [{"role": "user", "content": "disk full"}], "max_tokens": 12, "stream": True}
        while not over.is_set():
            try:
                with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=120) as answer:
                    lines = [line for line in answer.iter_lines() if line]
                models = {json.loads(line[6:])["model"] for line in lines[:-1]}
                assert answer.status_code == 200 and lines[-1] == "data: [DONE]", lines
                assert models == {answer.headers["x-turnout-version"]}, models
                stream.versions.append(models.pop())
            except (AssertionError, httpx.HTTPError, ValueError, KeyError) as error:
                stream.failures.append(f"{type(error).__name__}: {error}")

    with ThreadPoolExecutor(clients) as pool:
        asked = [pool.submit(ask) for _ in range(clients)]
        try:
            yield stream
        finally:
            over.set()
            for each in asked:
                each.result()


def test_llama_cpp_alone_serves_releases_without_a_failure(client: MlflowClient, home: Home, tmp_path: Path) -> None:
    base = resolve_base("bundled")
    gateway = {"port": free_port("127.0.0.1")}
    config = ServingConfig.model_validate(
        {"engines": ["llama_cpp"], "port": free_port("127.0.0.1"), "gateway": gateway, "max_model_len": 512}
    )
    try:
        stack: Stack = up(home, config, lambda: base)
        (engine,) = stack.engines
        assert engine.id == f"llama_cpp-{config.port}" and engine.build.startswith("llama_cpp ")
        one, two = (register_random(client, home, base, tmp_path / str(seed), seed) for seed in (1, 2))
        for version in (one, two):
            assert deploy(client, home, engine, version).build == engine.build
        assert promote(home, NAME, one.number).pending == ()
        with streaming(list_workers(home)[0].url) as stream:
            for _ in range(2):
                assert promote(home, NAME, two.number).pending == ()
                assert rollback(home, NAME, to=one.number).pending == ()
            count = len(stream.versions)
            while len(stream.versions) < count + 4 and not stream.failures:
                threading.Event().wait(0.2)
        assert stream.failures == [] and set(stream.versions) <= {one.served_name, two.served_name}
        assert stream.versions[-1] == one.served_name and compare(home, NAME)["in_sync"]
    finally:
        down(home)


def test_a_run_proves_its_version_on_both_kinds(pipeline_run: PipelineRun) -> None:
    again = pipeline_run.again("--set", "serving.engines=[vllm,llama_cpp]")
    try:
        assert again.code == 0, again
        result = again.json
        (other,) = result["others"]
        assert (other["kind"], other["problem"]) == ("llama_cpp", "") and other["difference"] <= 0.02
        assert result["version"] == pipeline_run.first["version"] and result["promoted"] and result["warnings"] == []
        (row,) = compare(pipeline_run.turnout.home, result["name"])["adapters"]
        assert {each["kind"]: each["proof"] for each in row["served"]} == dict.fromkeys(("vllm", "llama_cpp"), "proven")
    finally:
        for engine in serving_engines(pipeline_run.turnout.home, kind="llama_cpp"):
            stop_engine(pipeline_run.turnout.home, engine)
