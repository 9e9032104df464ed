"""Keeps the gate's verdict with the version that it was given to."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from registry.faults import translated
from registry.manifest import GateRule
from registry.version import MANIFEST_TAG, Version
from registry.versions import artifact_folder

if TYPE_CHECKING:
    from mlflow import MlflowClient


@translated()
def note_gate(client: "MlflowClient", version: Version, rules: Sequence[GateRule]) -> None:
    """Write the gate's rules into the version's manifest: the one thing in it that is known only after registering.

    They replace those of an earlier verdict. `gate.json`, beside the version's `manifest.json`, has the same.
    """
    manifest = version.manifest.model_copy(update={"gate": tuple(rules)})
    if manifest == version.manifest:
        return
    text = TypeAdapter(tuple[GateRule, ...]).dump_json(manifest.gate, indent=2).decode()
    client.log_text(version.run_id, text, f"{artifact_folder(manifest.adapter_sha256)}/gate.json")
    client.set_model_version_tag(version.name, str(version.number), MANIFEST_TAG, manifest.model_dump_json())
