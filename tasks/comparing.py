"""The score stage as a plain function: base, candidate and champion on the same rows."""

from dataclasses import replace
from pathlib import Path

from registry.adapters import fetch
from registry.datasets import fetch_dataset
from registry.store import connect
from registry.versions import Version
from tasks import progress
from tasks.cache import cached, key_of
from tasks.config import ScoreConfig, TrainConfig
from tasks.scored_rows import ROWS, read_rows
from tasks.scoring import Champion
from tasks.scoring import score as score_adapter
from turnout.errors import ArtifactDamaged, NotFound
from turnout.paths import home
from turnout.references import Adapter, Base, Dataset, Scores


def score(
    config: ScoreConfig,
    train: TrainConfig,
    dataset: Dataset,
    adapter: Adapter,
    base: Base,
    champion: Version | None,
    *,
    write_parity: bool,
) -> Scores:
    """Losses of base, candidate and champion on the same validation tokens, on the base as `train` quantised it.

    A champion of another base is left out: its loss in nats a token means something else. Candidate and champion are
    also measured on the champion's own validation rows, where those are others.
    """
    here = home()
    if champion and champion.manifest.base_sha256 != base.sha256:
        champion = None
    rival = champion.manifest.adapter_sha256 if champion else None
    own, own_note = champions_rows(champion, dataset, base) if champion else (None, "")
    inputs = {
        "rows": Path(dataset.path).name,
        "adapter": adapter.adapter_sha256,
        "champion": rival,
        "base": base.sha256,
        "double_quantisation": train.double_quantisation,
        "own": own.sha256 if own else None,
        "score": config.model_dump(mode="json", exclude={"answers", "answer_tokens"}),
    }

    def make(key: str) -> Scores:
        against = None
        if champion and rival:
            against = Champion(str(fetch(connect(here), champion, here)), rival, own, own_note)
        work = here.stages / "score" / key
        return score_adapter(
            dataset,
            base,
            adapter,
            against,
            config,
            work_folder=work,
            double_quantisation=train.double_quantisation,
            write_parity=write_parity,
            progress=progress.update,
        )

    # The folder may have been moved with its home since.
    rows = here.stages / "score" / key_of(inputs) / ROWS
    scores = cached(here, "score", inputs, Scores, make, lambda _scores: read_rows(rows) is not None)
    return replace(scores, rows_path=str(rows))


def champions_rows(champion: Version, dataset: Dataset, base: Base) -> tuple[Dataset | None, str]:
    """The dataset that `champion` was trained on, or None and why: it is this one, or cannot be had."""
    manifest = champion.manifest
    if manifest.dataset_sha256 == dataset.sha256:
        return None, "it was trained on the same dataset"
    if (manifest.tokenizer_sha256, manifest.template_sha256) != (base.tokenizer_sha256, base.template_sha256):
        return None, "they were written with another tokenizer or chat template"
    here = home()
    try:
        return fetch_dataset(connect(here), champion, here), ""
    except (NotFound, ArtifactDamaged) as error:
        return None, error.message
