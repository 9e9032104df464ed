import json
from pathlib import Path

from mlflow import MlflowClient

from registry.manifest import GateRule
from registry.verdicts import note_gate
from registry.versions import artifact_folder, get_version
from tests.registry.material import NAME, register_one
from turnout.paths import Home

RULES = (
    GateRule("better_than_base", True, 3.3, 0.0, "lower", (3.1, 3.5)),
    GateRule("format", False, None, 1.0, "0 % of 16 answers have the format: \u201c원인\u201d"),
)


def test_the_rules_are_in_the_manifest_and_beside_it(client: MlflowClient, home: Home, tmp_path: Path) -> None:
    version = register_one(client, home)
    note_gate(client, version, RULES)
    noted = get_version(client, NAME, version.number)
    assert noted.manifest.gate == RULES
    assert noted.manifest.model_copy(update={"gate": ()}) == version.manifest
    assert register_one(client, home) == noted
    file = f"{artifact_folder(version.manifest.adapter_sha256)}/gate.json"
    kept = json.loads(Path(client.download_artifacts(version.run_id, file, str(tmp_path))).read_text("utf-8"))
    assert [(rule["name"], rule["interval"]) for rule in kept] == [("better_than_base", [3.1, 3.5]), ("format", None)]


def test_a_later_verdict_replaces_it(client: MlflowClient, home: Home) -> None:
    version = register_one(client, home)
    note_gate(client, version, RULES)
    note_gate(client, get_version(client, NAME, version.number), RULES[:1])
    assert get_version(client, NAME, version.number).manifest.gate == RULES[:1]


def test_a_figure_that_is_no_number_leaves_the_manifest_readable(client: MlflowClient, home: Home) -> None:
    note_gate(client, register_one(client, home), [GateRule("proof", False, float("nan"), 0.02, "its loss is nan")])
    assert get_version(client, NAME, 1).manifest.gate[0].figure is None
