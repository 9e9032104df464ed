"""The pipeline's stages as Prefect tasks: thin wrappers that name, time and retry the functions they call."""

from collections.abc import Callable
from typing import Any

from prefect import task
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE

from data.config import DataConfig
from registry.versions import Version
from serving.config import ServingConfig
from tasks import comparing, deploying, releasing, steps, sweeping
from tasks.config import GateConfig, ScoreConfig, TrainConfig
from tasks.deploying import Served
from tasks.gate import Verdict
from tasks.progress import Run
from tasks.releasing import Switch
from tasks.report.filing import file_report
from tasks.report.markdown import markdown
from tasks.report.outcome import Finished, loss_table, outcome
from tasks.stage import can_pass, stage
from tasks.sweeping import Combination, Scored, Sweep
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
    return comparing.score(config, train, dataset, adapter, base, champion, write_parity=write_parity)


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
    score: ScoreConfig,
    version: Version,
    dataset: Dataset,
    scores: Scores,
    base: Base,
) -> Served:
    """Load the version into an engine and prove it there, without traffic."""
    return deploying.deploy(config, train, score, version, dataset, scores, base)


@stage("gate", retries=2)
def gate(
    config: GateConfig, version: Version, dataset: Dataset, scores: Scores, served: Served, champion: Version | None
) -> Verdict:
    """Judge the candidate."""
    return releasing.judge_version(config, version, dataset, scores, served, champion)


@stage("release", retries=2)
def release(
    version: Version, served: Served, verdict: Verdict, champion: Version | None, promote: bool
) -> Switch | None:
    """Switch traffic to a version that passed, or take a refused one off the engine."""
    return releasing.release(version, served, verdict, champion, promote)


@task(
    name="combination",
    retries=2,
    retry_delay_seconds=2,
    retry_condition_fn=lambda _task, _run, state: can_pass(state),
    cache_policy=NO_CACHE,
    persist_result=False,
)
def combination(each: Combination, about: Sweep, parent_id: str) -> Scored:
    """Train and score one combination of a sweep."""
    return sweeping.train_and_score(each, about, parent_id)


def publish(
    dataset: Dataset,
    adapter: Adapter,
    version: Version,
    scores: Scores,
    served: Served,
    verdict: Verdict,
    switch: Switch | None,
    champion: Version | None,
    run: Run,
) -> dict[str, Any]:
    """The run's outcome, also as a page in the home and the MLflow run, and as artifacts of Prefect's.

    The traffic is where it is by now, so a report that cannot be filed is a warning in the outcome.
    """
    before = champion.number if champion else switch.before if switch else None
    finished = Finished(
        dataset, adapter, version, scores, served, verdict, switch, before, dict(run.stages), tuple(run.sweep)
    )
    result, losses = outcome(finished), loss_table(scores, served)
    key, of = version.name, version.served_name

    def tell_prefect() -> None:
        create_markdown_artifact(markdown(result, losses), key=f"{key}-report", description=of)
        create_table_artifact(losses, key=f"{key}-losses", description=f"Losses of {of}")
        if result["report_url"]:
            create_link_artifact(
                result["report_url"], link_text=f"Report of {of}", key=f"{key}-report-page", description=of
            )

    filings: dict[str, Callable[[], None]] = {
        "the report is not filed": lambda: file_report(finished, result),
        "the report is not in Prefect": tell_prefect,
    }
    for failure, file in filings.items():
        try:
            file()
        except Exception as error:  # what comes depends on the HTTP library of the server that is gone
            result["warnings"].append(f"{failure}: {type(error).__name__} {str(error).partition(chr(10))[0]}")
    return result
