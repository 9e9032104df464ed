"""One registered version, as the rest of Turnout sees it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from registry.manifest import Manifest
from registry.names import served_name
from turnout.errors import ArtifactDamaged

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

MANIFEST_TAG = "manifest"
"""The tag that holds the whole manifest, so that listing versions downloads nothing."""


@dataclass(frozen=True)
class Version:
    """A registered adapter; `source` is where its folder lies in MLflow's artifact store."""

    name: str
    number: int
    run_id: str
    source: str
    manifest: Manifest
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def served_name(self) -> str:
        return served_name(self.name, self.number)

    @property
    def label(self) -> str | None:
        """The newest label that a run gave; the manifest keeps the first."""
        return self.tags.get("label", self.manifest.label)

    @classmethod
    def from_mlflow(cls, found: "ModelVersion") -> "Version":
        """Raises ArtifactDamaged where the manifest was edited into something else."""
        tags = {key: value for key, value in found.tags.items() if key != MANIFEST_TAG}
        try:
            manifest = Manifest.model_validate_json(found.tags[MANIFEST_TAG])
        except ValidationError as error:
            raise ArtifactDamaged(
                f"the manifest of {found.name} version {found.version} cannot be read: {error.errors()[0]['msg']}",
                f"set its tag `{MANIFEST_TAG}` to the content of its run's manifest.json",
            ) from error
        return cls(found.name, int(found.version), found.run_id or "", found.source or "", manifest, tags)

    def to_row(self, aliases: Iterable[str] = ()) -> dict[str, Any]:
        """The version as `turnout versions` shows it."""
        fields = (
            "eval_loss",
            "base_eval_loss",
            "champion_eval_loss",
            "eval_loss_original",
            "base_eval_loss_original",
            "rank",
            "base",
            "dataset_sha256",
            "adapter_sha256",
            "created",
        )
        values = {key: getattr(self.manifest, key) for key in fields}
        served = self.tags.get("served_eval_loss")
        return {
            "version": self.number,
            "served_name": self.served_name,
            "aliases": sorted(aliases),
            "served_eval_loss": float(served) if served else None,
            "refused": self.tags.get("refused"),
            "label": self.label,
            **values,
        }
