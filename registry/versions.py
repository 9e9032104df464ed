"""Adapter versions: MLflow model versions that carry a manifest, one for each set of adapter bytes."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.faults import error_code, translated
from registry.manifest import Manifest
from registry.names import check_name, releases_name, unknown_name, unknown_version
from registry.version import MANIFEST_TAG, Version
from turnout.digests import ADAPTER_FILES, adapter_sha256
from turnout.errors import ArtifactDamaged
from turnout.files import exclusive
from turnout.paths import Home
from turnout.paths import home as default_home
from turnout.references import Adapter

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

__all__ = [
    "Version",
    "artifact_folder",
    "find_by_sha256",
    "get_version",
    "list_names",
    "list_versions",
    "register",
    "set_candidate",
    "tag_version",
]

_ADAPTER_TAG = "turnout.adapter"
_PAGE = 100


@translated()
def register(
    client: "MlflowClient", name: str, adapter: Adapter, manifest: Manifest, run_id: str, *, home: Home | None = None
) -> Version:
    """Make `adapter` a version of `name`, or find the one that it already is.

    Whatever is killed and whoever else registers the same bytes, one version remains: the lowest number.

    Raises:
        ArtifactDamaged: the adapter's files are not those that the manifest names.
        RegistryUnavailable: MLflow did not answer.
        ResourceShort: the registry's disk is full.
    """
    actual = adapter_sha256(Path(adapter.path))
    if actual != manifest.adapter_sha256:
        raise ArtifactDamaged(
            f"{adapter.path} has the digest {actual}, its manifest says {manifest.adapter_sha256}",
            "something changed the files after training: remove that folder and run again",
        )
    _ensure_model(client, check_name(name))
    with exclusive((home or default_home()).lock(f"register-{name}")):
        found = _settle(client, name, manifest.adapter_sha256)
        if found is None:
            source = _upload(client, run_id, Path(adapter.path), manifest)
            tags = {**manifest.to_tags(), MANIFEST_TAG: manifest.model_dump_json()}
            note = manifest.to_markdown()
            client.create_model_version(name, source, run_id, tags=tags, description=note, await_creation_for=0)
            found = _settle(client, name, manifest.adapter_sha256)
    assert found is not None
    return found


@translated()
def get_version(client: "MlflowClient", name: str, number: int) -> Version:
    """Raises NotFound, listing what is registered."""
    from mlflow.exceptions import MlflowException

    try:
        found = client.get_model_version(check_name(name), str(number))
    except MlflowException as error:
        if error_code(error) != "RESOURCE_DOES_NOT_EXIST":
            raise
        found = None
    if found is None or MANIFEST_TAG not in found.tags:
        raise unknown_version(name, number, [each.number for each in list_versions(client, name)])
    return Version.from_mlflow(found)


@translated()
def list_versions(client: "MlflowClient", name: str) -> list[Version]:
    """All versions by number; damaged ones, and those that others made without a manifest, are left out.

    Raises:
        NotFound: there is no such adapter; the error lists those that are, nearest first.
    """
    return read_versions(client, name)[0]


@translated()
def read_versions(client: "MlflowClient", name: str) -> tuple[list[Version], dict[int, str]]:
    """As `list_versions`, and what is wrong with the damaged ones, by number."""
    versions, damaged = dict[str, Version](), dict[int, str]()
    for found in _search(client, f"name = '{check_name(name)}'"):
        sha256 = found.tags.get("adapter_sha256", "")
        if MANIFEST_TAG in found.tags and sha256 not in versions:
            try:
                versions[sha256] = Version.from_mlflow(found)
            except ArtifactDamaged as error:
                damaged[int(found.version)] = error.message
    if not versions and not damaged and name not in (known := list_names(client)):
        raise unknown_name(name, known)
    return list(versions.values()), damaged


@translated()
def list_names(client: "MlflowClient") -> list[str]:
    """The adapters that Turnout registered here."""
    names: list[str] = []
    token: str | None = None
    while True:
        page = client.search_registered_models(f"tags.`{_ADAPTER_TAG}` = 'true'", max_results=_PAGE, page_token=token)
        names += [model.name for model in page]
        token = page.token
        if not token:
            return sorted(names)


@translated()
def find_by_sha256(client: "MlflowClient", name: str, adapter_sha256: str) -> Version | None:
    """The version of `name` with these adapter bytes."""
    found = _with_sha256(client, name, adapter_sha256)
    return Version.from_mlflow(found[0]) if found else None


@translated()
def set_candidate(client: "MlflowClient", name: str, number: int) -> None:
    """Make a version the one that `turnout promote NAME` takes."""
    client.set_registered_model_alias(name, "candidate", str(number))


@translated()
def tag_version(client: "MlflowClient", name: str, number: int, tags: Mapping[str, Any]) -> None:
    """Set tags on a version, such as its served loss, or remove those that are None."""
    for key, value in tags.items():
        if value is None:
            client.delete_model_version_tag(name, str(number), key)
        else:
            client.set_model_version_tag(name, str(number), key, str(value))


def _ensure_model(client: "MlflowClient", name: str) -> None:
    from mlflow.exceptions import MlflowException

    note = f"LoRA adapter `{name}`. Its releases are the versions of `{releases_name(name)}`."
    try:
        client.create_registered_model(name, {_ADAPTER_TAG: "true"}, note)
    except MlflowException as error:
        if error_code(error) != "RESOURCE_ALREADY_EXISTS":
            raise
        client.set_registered_model_tag(name, _ADAPTER_TAG, "true")


def _settle(client: "MlflowClient", name: str, adapter_sha256: str) -> Version | None:
    """The lowest number with these bytes wins. A twin of another machine, or of a request that was sent
    twice, was never handed to anybody, so it can go."""
    from mlflow.exceptions import MlflowException

    found = _with_sha256(client, name, adapter_sha256)
    for twin in found[1:]:
        try:
            client.delete_model_version(name, str(twin.version))
        except MlflowException as error:
            if error_code(error) != "RESOURCE_DOES_NOT_EXIST":  # another machine settled it first
                raise
    return Version.from_mlflow(found[0]) if found else None


def _with_sha256(client: "MlflowClient", name: str, adapter_sha256: str) -> "list[ModelVersion]":
    found = _search(client, f"name = '{check_name(name)}' AND tags.adapter_sha256 = '{adapter_sha256}'")
    return [each for each in found if MANIFEST_TAG in each.tags]


def _search(client: "MlflowClient", filter_string: str) -> "list[ModelVersion]":
    found: list[ModelVersion] = []
    token: str | None = None
    while True:
        page = client.search_model_versions(filter_string, _PAGE, ["version_number ASC"], token)
        found += page
        token = page.token
        if not token:
            return found


def artifact_folder(adapter_sha256: str) -> str:
    """Where an adapter lies among its run's artifacts. A run that trains again, because its cached result was
    lost, may end in other bytes: they must not replace those of an earlier version."""
    return f"versions/{adapter_sha256[:16]}"


def _upload(client: "MlflowClient", run_id: str, folder: Path, manifest: Manifest) -> str:
    target = artifact_folder(manifest.adapter_sha256)
    for file in ADAPTER_FILES:
        client.log_artifact(run_id, str(folder / file), f"{target}/adapter")
    client.log_text(run_id, manifest.to_json(), f"{target}/manifest.json")
    return f"{client.get_run(run_id).info.artifact_uri}/{target}/adapter"
