"""Whether there is anything to retrain for, and that a name is retrained once at a time."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from registry.names import called
from registry.releases import Release, fold, read_log
from registry.store import connect
from registry.versions import Version, list_versions
from tasks.config import TrainConfig
from tasks.steps import learnt
from turnout.errors import NotFound
from turnout.files import exclusive
from turnout.paths import home
from turnout.references import Base, Dataset


@dataclass(frozen=True)
class Tried:
    """A version that was trained on the same rows of the same base with the same settings, and what came of it."""

    version: int
    reason: str


def already_tried(name: str, train: TrainConfig, dataset: Dataset, base: Base) -> Tried | None:
    """The version that a training on `dataset` would give again, if the gate or a person has judged it.

    None where there is none, and where a run was cut off before the gate: the same run again goes on there.
    """
    client = connect(home())
    try:
        versions = list_versions(client, name)
    except NotFound:
        return None
    same = [version for version in versions if learnt(version, train, dataset, base)]
    release = fold(read_log(client, name))
    outcomes = {version.number: _outcome(version, release) for version in same}
    if release.champion in outcomes:
        return Tried(release.champion, outcomes[release.champion])
    judged = [number for number, outcome in outcomes.items() if outcome]
    return Tried(max(judged), outcomes[max(judged)]) if judged else None


def _outcome(version: Version, release: Release) -> str:
    """What became of a version that was judged; empty where it was not."""
    number, trained = version.number, f"{version.served_name} was trained on the same rows with the same settings"
    if number == release.champion:
        return trained
    if number in release.rolled_back:
        return f"{trained}, and was rolled back; only a person promotes it again, with `turnout promote`"
    if refused := version.tags.get("refused"):
        return f"{trained}, and was refused: {refused}"
    if version.manifest.gate:
        promote = f"turnout promote {version.name} {called(number)}"
        return f"{trained}, and the gate passed it: `{promote}` releases it"
    return ""


@contextmanager
def alone(name: str) -> Iterator[bool]:
    """Hold the retraining of `name` for the block; yields whether nobody else in this home holds it."""
    with ExitStack() as held:
        try:
            held.enter_context(exclusive(home().lock(f"retrain-{name}"), wait=False))
        except BlockingIOError:
            yield False
            return
        yield True
