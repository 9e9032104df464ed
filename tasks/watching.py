"""What there is to tell about a name's data and its fresh rows, and what was told already."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from data.config import DataConfig
from data.source import resolve, source_sha256
from registry.datasets import fetch_dataset
from registry.store import connect
from registry.versions import Version
from tasks.drift import Drift
from turnout.errors import ArtifactDamaged, NotFound
from turnout.files import read_state, write_json
from turnout.paths import home

DATA_CHANGED = "turnout.data.changed"
DRIFT = "turnout.drift"


@dataclass(frozen=True)
class News:
    """A reason to retrain: the Prefect `event` that tells it, `about` which content, and in words."""

    event: str
    about: str
    text: str


def data_news(config: DataConfig, champion: Version | None) -> list[News]:
    """One entry where the bytes that `config.path` means now are not those that the champion's rows came from.

    Only a digest is taken. Whether other bytes are other rows, `retrain` finds out. Without a champion there is
    nothing to compare with: a first training is never begun by a look.

    Raises:
        DataError: the data is not there.
    """
    digest = source_sha256(resolve(config))
    learnt = _source_of(champion) if champion else digest
    if champion is None or learnt == digest:
        return []
    was = f", which {champion.served_name} learnt from {learnt[:12]}" if learnt else ""
    return [News(DATA_CHANGED, digest, f"{config.path} is {digest[:12]} now{was}")]


def drift_news(drift: Drift) -> list[News]:
    return [News(DRIFT, drift.about, f"drift: {drift.reason}")] if drift.drifted else []


def untold(name: str, news: Iterable[News]) -> list[News]:
    """The news that `remember` was not called with last, so that each is told once."""
    told = _told(name)
    return [each for each in news if told.get(each.event) != each.about]


def remember(name: str, news: Iterable[News]) -> None:
    write_json(_told_file(name), _told(name) | {each.event: each.about for each in news})


def _told(name: str) -> dict[str, str]:
    return read_state(_told_file(name), dict[str, str]) or {}


def _told_file(name: str) -> Path:
    return home().stages / "watch" / f"{name}.json"


def _source_of(champion: Version) -> str:
    """The digest of the bytes that the champion's rows came from; empty where nobody knows."""
    try:
        return fetch_dataset(connect(home()), champion, home()).source_sha256
    except (NotFound, ArtifactDamaged):
        return ""
