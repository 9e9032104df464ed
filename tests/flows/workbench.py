"""The champion of the real pipeline run, and the pipeline's last steps for its challengers."""

import asyncio
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from data.rows import validation_sample
from flows.config import PipelineConfig
from flows.presets.loading import load_preset
from registry.aliases import read_aliases
from registry.events import Event
from registry.releases import read_log
from registry.store import connect
from registry.versions import Version
from serving.ask import ask
from serving.client import EngineClient
from serving.gateway.records import list_workers
from serving.measure import score_rows
from serving.placement import loaded_adapters
from serving.records import Engine, serving_engines
from serving.routes import NameRoutes, read_routes
from tasks.bases import resolve_base
from tasks.comparing import score
from tasks.config import GateConfig
from tasks.deploying import Served, deploy
from tasks.gate import Verdict
from tasks.releasing import judge_version, release
from tasks.steps import prepare, register, train
from tests.conftest import PipelineRun
from turnout.digests import ADAPTER_FILES, adapter_files, adapter_sha256
from turnout.files import write_json
from turnout.paths import Home
from turnout.references import Adapter, Base, Dataset, Loss, Scores

NAME = "bot"
"""As in the pipeline run: its champion is the one to defend, and an engine has room for few others."""


@dataclass(frozen=True)
class Candidate:
    """What the stages before `register` leave; its adapter's folder may be changed."""

    adapter: Adapter
    dataset: Dataset
    scores: Scores
    base: Base
    gate: GateConfig
    champion: Version | None

    @property
    def folder(self) -> Path:
        return Path(self.adapter.path)

    @property
    def weights(self) -> Path:
        return self.folder / ADAPTER_FILES[1]

    def as_trained(self, **changes: Any) -> "Candidate":
        """With the digest and the size of its present files, as if a training had left those."""
        size = sum(file.stat().st_size for file in adapter_files(self.folder))
        now = {"adapter_sha256": adapter_sha256(self.folder), "bytes": size}
        return replace(self, adapter=replace(self.adapter, **now | changes))

    def with_weights(self, change: Callable[[str, Any], Any]) -> "Candidate":
        """With each tensor as `change` makes it of its name and value, or without it."""
        from safetensors.torch import load_file, save_file

        changed = {name: change(name, value) for name, value in load_file(self.weights).items()}
        save_file({name: value.contiguous() for name, value in changed.items() if value is not None}, self.weights)
        return self.as_trained()

    def louder(self, factor: float) -> "Candidate":
        """With its effect on the base so many times as large."""
        return self.with_weights(lambda name, value: value * factor if "lora_B" in name else value)

    def with_settings(self, **settings: Any) -> "Candidate":
        """With other values in adapter_config.json."""
        file = self.folder / ADAPTER_FILES[0]
        file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | settings), "utf-8")
        return self.as_trained()

    def with_gate(self, **rules: Any) -> "Candidate":
        return replace(self, gate=GateConfig.model_validate(self.gate.model_dump() | rules))

    def as_first(self) -> "Candidate":
        """Without a champion to compare with."""
        return replace(self, champion=None, scores=replace(self.scores, champion=None))


@dataclass(frozen=True)
class Standing:
    """Where the traffic of `NAME` goes, and what says so."""

    log: tuple[Event, ...]
    routes: NameRoutes
    champion: int
    answers_as: str


@dataclass(frozen=True)
class Workbench:
    client: MlflowClient
    home: Home
    config: PipelineConfig
    trained: Candidate

    @property
    def engine(self) -> Engine:
        return serving_engines(self.home)[0]

    def standing(self) -> Standing:
        routes = read_routes(self.home)
        assert routes
        model = ask(list_workers(self.home)[0].url, NAME, "Why?", max_tokens=2).model
        log = tuple(read_log(self.client, NAME))
        return Standing(log, routes.names[NAME], read_aliases(self.client, NAME)["champion"], model)

    def loaded(self) -> set[str]:
        return set(loaded_adapters(self.engine))

    def candidate(self, folder: Path) -> Candidate:
        """The trained weights in a file of other bytes (its header says less), so that it is a version of its own."""
        shutil.copytree(self.trained.folder, folder)
        copy = replace(self.trained, adapter=replace(self.trained.adapter, path=str(folder)))
        return copy.with_weights(lambda _name, value: value)

    def register(self, it: Candidate) -> Version:
        return register(NAME, None, self.config.train, it.dataset, it.adapter, it.scores, it.base)

    def deploy(self, it: Candidate, version: Version) -> Served:
        config = self.config
        return deploy(config.serving, config.train, config.score, version, it.dataset, it.scores, it.base)

    def judge(self, it: Candidate, version: Version, served: Served, promote: bool = True) -> Verdict:
        """The gate's verdict, carried out."""
        verdict = judge_version(it.gate, version, it.dataset, it.scores, served, it.champion)
        switch = release(version, served, verdict, it.champion, promote)
        assert (switch is not None) is (verdict.passed and promote)
        return verdict

    def measured(self, it: Candidate) -> Candidate:
        """With the losses that the engine finds for its weights: what an honest scorer would say of them."""
        rows = validation_sample(it.dataset, self.config.score.max_rows)

        async def sums() -> list[float]:
            async with EngineClient(self.engine.url) as client:
                await client.load_adapter("measured", it.folder)
                try:
                    return [-sum(row) for row in await score_rows(client, "measured", rows)]
                finally:
                    await client.unload_adapter("measured")

        found, tokens = asyncio.run(sums()), sum(sum(row.loss_mask) for row in rows)
        kept, file = json.loads(Path(it.scores.rows_path).read_text("utf-8")), it.folder.with_name("rows.json")
        losses = [row | {"nll_sum": nll} for row, nll in zip(kept["candidate"], found, strict=True)]
        write_json(file, kept | {"candidate": losses})
        loss = Loss(sum(found) / tokens, tokens, len(rows))
        return replace(it, scores=replace(it.scores, candidate=loss, rows_path=str(file)))


def build_workbench(run: PipelineRun, folder: Path) -> Workbench:
    """The champion is version 1, which `run` trained and released; TURNOUT_HOME must be the home of `run`."""
    settings = [value for flag, value in zip(run.args, run.args[1:], strict=False) if flag == "--set"]
    config = load_preset("tiny-cpu", settings)
    base = resolve_base(config.base)
    dataset = prepare(config.data, base)
    adapter = train(config.name, config.train, dataset, base)
    scores = score(config.score, config.train, dataset, adapter, base, None, write_parity=True)
    home = run.turnout.home
    bench = Workbench(
        connect(home), home, config, Candidate(adapter, dataset, scores, base, config.gate, champion=None)
    )
    champion = bench.register(bench.trained)
    assert bench.judge(bench.trained, champion, bench.deploy(bench.trained, champion)).passed
    rows = json.loads(Path(scores.rows_path).read_text("utf-8"))
    file = folder / "rows.json"
    write_json(file, rows | {"champion": rows["candidate"]})
    note = "it was trained on the same dataset"
    scores = replace(scores, champion=scores.candidate, own_note=note, rows_path=str(file))
    return replace(bench, trained=replace(bench.trained, scores=scores, champion=champion))
