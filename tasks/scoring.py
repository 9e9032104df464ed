"""Starts the scoring child and gives its scores."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tasks.children import run_module, said
from tasks.config import ScoreConfig
from turnout.errors import ScoringFailed
from turnout.references import Adapter, Base, Dataset, Scores, from_json


@dataclass(frozen=True)
class Champion:
    """The adapter that takes traffic now, and the dataset with its own validation rows, or why there is none."""

    adapter_path: str
    adapter_sha256: str
    own: Dataset | None = None
    own_note: str = ""


def score(
    dataset: Dataset,
    base: Base,
    adapter: Adapter,
    champion: Champion | None,
    config: ScoreConfig,
    *,
    work_folder: Path,
    double_quantisation: bool = True,
    write_parity: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Scores:
    """Losses of base, candidate and champion on the same validation tokens, and sample answers side by side.

    Of candidate and champion also on the champion's own validation rows, if they are given.

    `work_folder` keeps each row's losses in `rows.json`. With `write_parity` the base's parity twin is written where
    there is none, which costs little here, because its weights are in memory.

    Raises:
        ResourceShort: out of memory or disk.
        ScoringFailed: nothing to score on, a loss that is not finite, or a child that ended badly.
    """
    adapters = {"candidate": adapter.path} | ({"champion": champion.adapter_path} if champion else {})
    heard = ""

    def listen() -> None:
        nonlocal heard
        text = said(work_folder)
        if progress and text != heard:
            heard = text
            progress(text)

    job = {
        "dataset": dataset,
        "base": base,
        "adapters": adapters,
        "config": config,
        "work_folder": str(work_folder),
        "double_quantisation": double_quantisation,
        "write_parity": write_parity,
        "own": champion.own if champion else None,
        "own_note": champion.own_note if champion else "",
    }
    return from_json(Scores, run_module("tasks.score", job, work_folder, on_poll=listen, failure=ScoringFailed))
