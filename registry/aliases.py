"""The aliases champion, previous and candidate in MLflow: a view of the release log, never read as the truth."""

from typing import TYPE_CHECKING, Any

from registry.faults import error_code, translated
from registry.manifest import Manifest
from registry.names import check_name
from registry.releases import Release, fold, read_log
from registry.version import Version
from registry.versions import read_versions
from turnout.errors import TurnoutError

if TYPE_CHECKING:
    from mlflow import MlflowClient

_ROUNDS = 3
_VIEW_TAG = "turnout.view"
"""On the registered model: the number of the release event that the aliases were last written for."""


@translated()
def read_aliases(client: "MlflowClient", name: str) -> dict[str, int]:
    """Alias → version number; empty where there is no such adapter."""
    from mlflow.exceptions import MlflowException

    try:
        aliases = client.get_registered_model(check_name(name)).aliases
    except MlflowException as error:
        if error_code(error) != "RESOURCE_DOES_NOT_EXIST":
            raise
        return {}
    return {alias: int(number) for alias, number in aliases.items()}


@translated()
def version_rows(client: "MlflowClient", name: str) -> list[dict[str, Any]]:
    """Every version with its losses and aliases, oldest first, as plain values.

    Of one whose manifest cannot be read, `problem` says so, and its figures are None.
    """
    names: dict[int, list[str]] = {}
    for alias, number in read_aliases(client, name).items():
        names.setdefault(number, []).append(alias)
    versions, damaged = read_versions(client, name)
    rows = [version.to_row(names.get(version.number, ())) | {"problem": None} for version in versions]
    unknown: dict[str, Any] = {**dict.fromkeys(Manifest.model_fields), "created": "", "adapter_sha256": ""}
    nothing = Manifest.model_construct(None, **unknown)
    rows += [
        Version(name, number, "", "", nothing).to_row(names.get(number, ())) | {"problem": problem}
        for number, problem in damaged.items()
    ]
    return sorted(rows, key=lambda row: row["version"])


@translated()
def drop_candidate(client: "MlflowClient", name: str, number: int) -> None:
    """Take `candidate` off version `number`; nothing happens where it stands elsewhere."""
    if read_aliases(client, name).get("candidate") == number:
        client.delete_registered_model_alias(name, "candidate")


@translated()
def find_moved(client: "MlflowClient", name: str, release: Release) -> int | None:
    """The version that somebody moved the alias `champion` to by hand; None where it stands where the log says.

    Aliases that were never brought in line with the release, or were removed, are written anew.
    """
    model = client.get_registered_model(check_name(name))
    champion = model.aliases.get("champion")
    if champion is not None and int(champion) == release.champion:
        return None
    if champion is None or int(model.tags.get(_VIEW_TAG, 0)) < release.generation:
        write_view(client, name, release)
        return None
    return int(champion)


def write_view(client: "MlflowClient", name: str, release: Release) -> list[str]:
    """Bring the aliases in line with `release`, or with a newer one if the log has moved on.

    The release stands whether or not this works, so failures are returned, not raised. A version that
    became champion, or was rolled back, stops being the candidate: `turnout promote` must not take it again.
    """
    from mlflow.exceptions import MlflowException

    try:
        return _write(client, name, release)
    except (TurnoutError, MlflowException) as error:
        return [f"the aliases of {name} in MLflow are stale: {error}"]


@translated()
def _write(client: "MlflowClient", name: str, release: Release) -> list[str]:
    actual = read_aliases(client, name)
    for _ in range(_ROUNDS):
        wanted = _wanted(release, actual)
        _set(client, name, actual, wanted)
        actual = read_aliases(client, name)
        newest = fold(read_log(client, name, after=release.head), release)
        # MLflow's aliases are last-write-wins: a slower writer of an older release may have come after us.
        if actual == _wanted(newest, actual):
            client.set_registered_model_tag(name, _VIEW_TAG, str(newest.generation))
            return []
        release = newest
    return [f"the aliases of {name} in MLflow are {actual}, the release log says {_wanted(release, actual)}"]


def _wanted(release: Release, actual: dict[str, int]) -> dict[str, int]:
    """What the aliases are to be; those that are none of ours stay."""
    wanted = {alias: number for alias, number in actual.items() if alias not in ("champion", "previous")}
    if wanted.get("candidate") in {release.champion, *release.rolled_back}:
        del wanted["candidate"]
    routed = {"champion": release.champion, "previous": release.previous}
    return wanted | {alias: number for alias, number in routed.items() if number is not None}


def _set(client: "MlflowClient", name: str, actual: dict[str, int], wanted: dict[str, int]) -> None:
    for alias in actual.keys() - wanted.keys():
        client.delete_registered_model_alias(name, alias)
    for alias, number in wanted.items():
        if actual.get(alias) != number:
            client.set_registered_model_alias(name, alias, str(number))
