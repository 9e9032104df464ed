"""What the registry's tests register: small adapters on disk, their manifests, and a dataset's reference."""

import json
from pathlib import Path

from mlflow import MlflowClient

from registry.datasets import keep_dataset
from registry.manifest import Manifest, build_manifest
from registry.runs import open_run
from registry.versions import Version, register
from turnout.digests import ADAPTER_FILES, files_sha256
from turnout.paths import Home
from turnout.references import Adapter, Base, Dataset, Loss, Scores

NAME = "incident-bot"
BASE = Base(
    id="tiny",
    name="tiny",
    path="/nowhere",
    sha256="b" * 64,
    tokenizer_sha256="c" * 64,
    template_sha256="d" * 64,
    eos_ids=(2,),
)
DATASET = Dataset(
    path="/nowhere",
    source="sample:incidents",
    format="instruction",
    sha256="e" * 64,
    rows=10,
    train_rows=8,
    validation_rows=2,
    too_long=0,
    train_tokens=800,
    validation_tokens=200,
    longest=120,
    template_sha256="d" * 64,
)


def make_adapter(folder: Path, weights: bytes = b"weights") -> Adapter:
    folder.mkdir(parents=True, exist_ok=True)
    config = {"r": 8, "lora_alpha": 16, "target_modules": ["k_proj", "q_proj"], "base_model_name_or_path": BASE.id}
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "adapter_model.safetensors").write_bytes(weights)
    files = [folder / name for name in ADAPTER_FILES]
    return Adapter(
        path=str(folder),
        adapter_sha256=files_sha256(files),
        bytes=sum(file.stat().st_size for file in files),
        rank=8,
        alpha=16,
        dropout=0.05,
        target_modules=("q_proj", "k_proj"),
        base_sha256=BASE.sha256,
        train_digest="f" * 64,
        trainable_params=1000,
        total_params=100000,
        train_loss=1.5,
        steps=3,
        train_seconds=2.0,
        hardware="a CPU",
        libraries={"peft": "0.21.2"},
    )


def make_manifest(adapter: Adapter, dataset: Dataset = DATASET) -> Manifest:
    scores = Scores(
        base=Loss(5.2, 200, 2),
        candidate=Loss(1.9, 200, 2),
        champion=None,
        base_original=Loss(4.7, 200, 2),
        candidate_original=Loss(2.2, 200, 2),
    )
    return build_manifest(dataset, BASE, adapter, scores)


def register_one(client: MlflowClient, home: Home, name: str = NAME, weights: bytes = b"weights") -> Version:
    adapter = make_adapter(home.root / "trained" / weights[:16].hex(), weights)
    run_id = open_run(client, name, adapter.adapter_sha256, home=home)
    return register(client, name, adapter, make_manifest(adapter), run_id, home=home)


def register_with_dataset(
    client: MlflowClient, home: Home, dataset: Dataset, source: Path, name: str = NAME, weights: bytes = b"weights"
) -> Version:
    """A version that was trained on `dataset`, which is kept with it."""
    adapter = make_adapter(home.root / "trained" / weights[:16].hex(), weights)
    run_id = open_run(client, name, adapter.adapter_sha256, home=home)
    keep_dataset(client, run_id, dataset, source)
    return register(client, name, adapter, make_manifest(adapter, dataset), run_id, home=home)
