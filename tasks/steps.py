"""The stages prepare, train and register as plain functions; score is in tasks.comparing."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from data.config import DataConfig
from data.prepare import prepare as prepare_rows
from data.source import resolve as resolve_source
from data.source import source_sha256
from data.versions import changed_meanwhile, keep_version, kept_source
from registry.datasets import keep_dataset
from registry.manifest import build_manifest
from registry.releases import fold, read_log
from registry.runs import finish_run, link_dataset, log_metrics, log_params, open_run
from registry.store import connect
from registry.versions import Version, find_by_sha256, get_version, set_candidate, tag_version
from registry.versions import register as register_adapter
from tasks import progress
from tasks.cache import cached, key_of
from tasks.checkpoints import read_metrics
from tasks.config import TrainConfig, train_settings
from tasks.forwarding import MetricForwarder
from tasks.training import train as train_adapter
from turnout.digests import adapter_files, adapter_sha256, json_sha256
from turnout.errors import ArtifactDamaged, NotFound, RegistryUnavailable
from turnout.paths import Home, home
from turnout.references import Adapter, Base, Dataset, Scores


def prepare(config: DataConfig, base: Base) -> Dataset:
    """The rows of `config`, tokenised for `base`; kept under the digest of the source's bytes, as these bytes are."""
    here, source = home(), resolve_source(config)
    digest = source_sha256(source)
    rows = {
        "source": digest,
        "data": config.model_dump(mode="json", exclude={"path", "split", "checks"}),
        "tokenizer": base.tokenizer_sha256,
        "template": base.template_sha256,
    }
    inputs = rows | {"checks": config.checks.model_dump(mode="json")}

    def is_intact(dataset: Dataset) -> bool:
        there = dataset.train_file.is_file() and dataset.validation_file.is_file()
        return there and dataset.source_sha256 == digest  # an older Turnout left that out

    def make(_key: str) -> Dataset:
        # Other checks do not make other rows, and what was trained on these rows goes by the folder's name.
        dataset = prepare_rows(config, base, here.datasets / key_of(rows))
        if source_sha256(source) != digest:
            raise changed_meanwhile(source)
        return replace(dataset, source_sha256=digest)

    dataset = cached(here, "prepare", inputs, Dataset, make, is_intact)
    keep_version(here, dataset, source, base)
    return dataset


def train_inputs(name: str, config: TrainConfig, dataset: Dataset, base: Base) -> dict[str, Any]:
    """What a training's result depends on."""
    return {
        "name": name,
        "rows": Path(dataset.path).name,
        "train": train_settings(config),
        "base": base.sha256,
    }


def train(name: str, config: TrainConfig, dataset: Dataset, base: Base) -> Adapter:
    """The trained adapter; a killed training of the same inputs goes on at its last checkpoint."""
    here, inputs = home(), train_inputs(name, config, dataset, base)

    def make(key: str) -> Adapter:
        client = connect(here)
        run_id = open_run(client, name, key, {"turnout.stage": "train"}, home=here)
        log_params(
            client, run_id, {"train": config.model_dump(mode="json"), "base": base.id, "dataset": dataset.source}
        )
        try:
            adapter = train_adapter(
                dataset,
                base,
                config,
                run_folder=here.runs / key,
                on_metrics=MetricForwarder(client, run_id),
                progress=lambda step: progress.update(step.text, step.step, step.total),
            )
        except BaseException:
            with suppress(RegistryUnavailable):  # what stopped the training is the error to show
                finish_run(client, run_id, "FAILED")
            raise
        finish_run(client, run_id)
        return adapter

    return cached(here, "train", inputs, Adapter, make, is_intact)


def is_intact(adapter: Adapter) -> bool:
    """Whether the adapter's files are there and are those that were trained."""
    folder = Path(adapter.path)
    return all(file.is_file() for file in adapter_files(folder)) and adapter_sha256(folder) == adapter.adapter_sha256


def find_champion(name: str, *, other_than: str = "") -> Version | None:
    """The present champion of `name`, unless it has the adapter digest `other_than`, or can no longer be read."""
    client = connect(home())
    number = fold(read_log(client, name)).champion
    if number is None:
        return None
    try:
        version = get_version(client, name, number)
    except (NotFound, ArtifactDamaged):
        return None  # nothing can be compared with it, and the release says so
    return None if version.manifest.adapter_sha256 == other_than else version


def learnt(champion: Version, config: TrainConfig, dataset: Dataset, base: Base) -> bool:
    """Whether `champion` is what training on this would give again."""
    manifest = champion.manifest
    was = (manifest.dataset_sha256, manifest.base_sha256, manifest.train_digest)
    return was == (dataset.sha256, base.sha256, json_sha256(train_settings(config)))


def register(
    name: str, label: str | None, config: TrainConfig, dataset: Dataset, adapter: Adapter, scores: Scores, base: Base
) -> Version:
    """The MLflow model version of `adapter`, with its manifest; `candidate` until it is released or refused."""
    here = home()
    client = connect(here)
    version = find_by_sha256(client, name, adapter.adapter_sha256)
    if version is not None:
        progress.current().cached = True
        finish_run(client, version.run_id)
    else:
        key = key_of(train_inputs(name, config, dataset, base))
        run_id = open_run(client, name, key, home=here)
        MetricForwarder(client, run_id).send(read_metrics(here.runs / key))
        link_dataset(client, run_id, dataset)
        keep_dataset(client, run_id, dataset, _kept_source(here, dataset))
        log_metrics(client, run_id, adapter.steps, _losses(scores))
        manifest = build_manifest(dataset, base, adapter, scores, label=label)
        version = register_adapter(client, name, adapter, manifest, run_id, home=here)
        finish_run(client, run_id)
    if label and label != version.label:
        tag_version(client, name, version.number, {"label": label})
        version = get_version(client, name, version.number)
    release = fold(read_log(client, name))
    if version.number != release.champion and version.number not in release.rolled_back:
        set_candidate(client, name, version.number)
    return version


def _kept_source(here: Home, dataset: Dataset) -> Path:
    source = kept_source(here, dataset.source_sha256)
    if source is None:
        raise NotFound(
            f"the bytes of {dataset.source} are no longer in {here.sources}", "Run again: it keeps them anew."
        )
    return source


def _losses(scores: Scores) -> dict[str, float]:
    losses = {
        "base_eval_loss": scores.base.nats,
        "eval_loss": scores.candidate.nats,
        "eval_perplexity": scores.candidate.perplexity,
        "base_eval_loss_original": scores.base_original.nats,
        "eval_loss_original": scores.candidate_original.nats,
    }
    return losses | ({"champion_eval_loss": scores.champion.nats} if scores.champion else {})
