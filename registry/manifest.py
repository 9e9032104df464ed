"""The contract between training and serving: what a version is, and what it fits on."""

import json
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from turnout.digests import adapter_files, adapter_sha256
from turnout.errors import LoadRefused
from turnout.references import Adapter, Base, Dataset, Loss, Scores


@dataclass(frozen=True)
class GateRule:
    """One of the gate's rules, and how a version did. `figure`, `limit` and `interval` are in the rule's own unit
    (nats a token for losses); None where it has none."""

    name: str
    passed: bool
    figure: float | None
    limit: float | None
    text: str
    interval: tuple[float, float] | None = None


class Manifest(BaseModel, frozen=True, extra="ignore"):
    """What was trained, from what, with which result. Losses are in nats a token.

    The plain losses are at training precision (NF4), `*_original` in bf16 on the base as published.
    `gate` is filled in when the gate has judged the version; see registry.verdicts.
    Unknown fields are ignored, so that an older Turnout can serve what a newer one trained.
    """

    base: str
    base_revision: str | None
    base_sha256: str
    tokenizer_sha256: str
    template_sha256: str
    eos_ids: tuple[int, ...]
    adapter_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")  # names a folder, so it must not walk out of it
    adapter_bytes: int
    rank: int
    alpha: float
    dropout: float
    target_modules: tuple[str, ...]
    trainable_params: int
    total_params: int
    dataset_sha256: str
    dataset_source: str
    rows: int
    train_rows: int
    validation_rows: int
    train_digest: str
    train_loss: float
    base_eval_loss: float
    eval_loss: float
    champion_eval_loss: float | None
    base_eval_loss_original: float
    eval_loss_original: float
    scored_rows: int
    scored_tokens: int
    libraries: dict[str, str]
    hardware: str
    created: str
    git_commit: str | None
    label: str | None = None
    gate: tuple[GateRule, ...] = ()

    def to_json(self) -> str:
        return self.model_dump_json(indent=2) + "\n"

    def to_tags(self) -> dict[str, str]:
        """The fields that people search for and compare; MLflow shows them beside the version."""
        fields = ("base", "base_sha256", "adapter_sha256", "rank", "eval_loss", "base_eval_loss", "dataset_sha256")
        tags = {field: str(getattr(self, field)) for field in fields}
        return tags | ({"label": self.label} if self.label else {})

    def to_markdown(self) -> str:
        """The version's description in MLflow's pages."""
        champion = f"| champion before | {self.champion_eval_loss:.4f} | |\n" if self.champion_eval_loss else ""
        return (
            f"LoRA r={self.rank} on `{self.base}`, {self.train_rows} rows of `{self.dataset_source}`\n\n"
            "| eval loss, nats a token | as trained (NF4) | bf16 base |\n|---|---|---|\n"
            f"| base | {self.base_eval_loss:.4f} | {self.base_eval_loss_original:.4f} |\n{champion}"
            f"| **this version** | **{self.eval_loss:.4f}** | {self.eval_loss_original:.4f} |\n"
        )


def build_manifest(
    dataset: Dataset, base: Base, adapter: Adapter, scores: Scores, *, label: str | None = None
) -> Manifest:
    """The manifest of an adapter that was just scored; `base` is the original, not a parity copy."""
    return Manifest(
        base=base.id,
        base_revision=base.revision,
        base_sha256=base.sha256,
        tokenizer_sha256=base.tokenizer_sha256,
        template_sha256=base.template_sha256,
        eos_ids=base.eos_ids,
        adapter_sha256=adapter.adapter_sha256,
        adapter_bytes=adapter.bytes,
        rank=adapter.rank,
        alpha=adapter.alpha,
        dropout=adapter.dropout,
        target_modules=adapter.target_modules,
        trainable_params=adapter.trainable_params,
        total_params=adapter.total_params,
        dataset_sha256=dataset.sha256,
        dataset_source=dataset.source,
        rows=dataset.rows,
        train_rows=dataset.train_rows,
        validation_rows=dataset.validation_rows,
        train_digest=adapter.train_digest,
        train_loss=adapter.train_loss,
        base_eval_loss=scores.base.nats,
        eval_loss=scores.candidate.nats,
        champion_eval_loss=_nats(scores.champion),
        base_eval_loss_original=scores.base_original.nats,
        eval_loss_original=scores.candidate_original.nats,
        scored_rows=scores.candidate.rows,
        scored_tokens=scores.candidate.tokens,
        libraries=adapter.libraries,
        hardware=adapter.hardware,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        git_commit=git_commit(),
        label=label,
    )


def check_fits(manifest: Manifest, base: Base, adapter_folder: Path) -> None:
    """Refuse an adapter whose files, or the base that would serve it, are not the manifest's.

    A parity base fits where its original does.

    Raises:
        LoadRefused: names the field and both values.
    """
    _compare("base_sha256", manifest.base_sha256, base.parity_of or base.sha256)
    _compare("tokenizer_sha256", manifest.tokenizer_sha256, base.tokenizer_sha256)
    _compare("template_sha256", manifest.template_sha256, base.template_sha256)
    _compare("eos_ids", manifest.eos_ids, base.eos_ids)
    files = adapter_files(adapter_folder)
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise LoadRefused(f"{adapter_folder} lacks {', '.join(missing)}", "fetch the version again")
    _compare("adapter_bytes", manifest.adapter_bytes, sum(file.stat().st_size for file in files))
    config = _read(files[0])
    _compare("rank", manifest.rank, config.get("r"))
    _compare("alpha", manifest.alpha, config.get("lora_alpha"))
    _compare("target_modules", sorted(manifest.target_modules), sorted(config.get("target_modules") or ()))
    _compare("adapter_sha256", manifest.adapter_sha256, adapter_sha256(adapter_folder))


def git_commit() -> str | None:
    """The commit checked out in the present folder; None outside a repository or without git."""
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None


def _read(config: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(config.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise LoadRefused(f"{config} is no JSON object: {error}", "train the version again") from error


def _nats(loss: Loss | None) -> float | None:
    return None if loss is None else loss.nats


def _compare(field: str, expected: Any, actual: Any) -> None:
    if expected != actual:
        raise LoadRefused(
            f"the version does not fit: {field} is {actual!r} here and {expected!r} in its manifest",
            "serve it on the base that it was trained on, or train it again on this one",
        )
