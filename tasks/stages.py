"""The pipeline's stages as Prefect tasks: thin wrappers that name, time and retry the functions they call."""

from collections.abc import Callable, Mapping
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from data.config import DataConfig
from registry.versions import Version
from serving.config import ServingConfig
from tasks import deploying, releasing, reporting, steps
from tasks.config import GateConfig, ScoreConfig, TrainConfig
from tasks.deploying import Served
from tasks.gate import Verdict
from tasks.progress import StageRecord
from tasks.releasing import Switch
from tasks.stage import stage
from turnout.references import Adapter, Base, Dataset, Scores


@stage("prepare")
def prepare(config: DataConfig, base: Base) -> Dataset:
    """Read, check, split and tokenise the rows."""
    return steps.prepare(config, base)


@stage("train")
def train(name: str, config: TrainConfig, dataset: Dataset, base: Base) -> Adapter:
    """Train a LoRA adapter on the NF4 base, or go on with a training that was cut off."""
    return steps.train(name, config, dataset, base)


@stage("score", retries=2)
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
    """Measure base, candidate and champion on the same validation tokens."""
    return steps.score(config, train, dataset, adapter, base, champion, write_parity=write_parity)


@stage("register", retries=2)
def register(
    name: str, label: str | None, config: TrainConfig, dataset: Dataset, adapter: Adapter, scores: Scores, base: Base
) -> Version:
    """Make the adapter a version in MLflow, once."""
    return steps.register(name, label, config, dataset, adapter, scores, base)


@stage("deploy", retries=1)
def deploy(
    config: ServingConfig,
    train: TrainConfig,
    max_rows: int,
    version: Version,
    dataset: Dataset,
    scores: Scores,
    base: Base,
) -> Served:
    """Load the version into an engine and prove it there, without traffic."""
    return deploying.deploy(config, train, max_rows, version, dataset, scores, base)


@stage("gate")
def gate(config: GateConfig, version: Version, scores: Scores, served: Served, champion: Version | None) -> Verdict:
    """Judge the candidate."""
    return releasing.judge_version(config, version, scores, served, champion)


@stage("release", retries=2)
def release(
    version: Version, served: Served, verdict: Verdict, champion: Version | None, promote: bool
) -> Switch | None:
    """Switch traffic to a version that passed, or take a refused one off the engine."""
    return releasing.release(version, served, verdict, champion, promote)


def publish(
    version: Version,
    scores: Scores,
    served: Served,
    verdict: Verdict,
    switch: Switch | None,
    champion: Version | None,
    stages: Mapping[str, StageRecord],
) -> dict[str, Any]:
    """The run's outcome, also as artifacts of Prefect's and of the MLflow run.

    The traffic is where it is by now, so a report that cannot be filed is a warning in the outcome.
    """
    before = champion.number if champion else switch.before if switch else None
    result = reporting.outcome(version, scores, served, verdict, switch, before, stages)
    losses = reporting.loss_table(scores, served)
    page = reporting.markdown(result, losses)
    key, of = version.name, version.served_name
    filings: dict[str, Callable[[], Any]] = {
        "the report is not in Prefect": lambda: create_markdown_artifact(page, key=f"{key}-report", description=of),
        "the losses are not in Prefect": lambda: create_table_artifact(
            losses, key=f"{key}-losses", description=f"Losses of {of}"
        ),
        "the report is not in MLflow": lambda: reporting.file_report(version, page),
    }
    for failure, file in filings.items():
        try:
            file()
        except Exception as error:  # what comes depends on the HTTP library of the server that is gone
            result["warnings"].append(f"{failure}: {type(error).__name__} {str(error).partition(chr(10))[0]}")
    return result
