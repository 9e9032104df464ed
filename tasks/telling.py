"""What the flow `watch` does in Prefect: measures drift as a stage, and tells news as events."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from prefect import get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.events import emit_event

from data.config import DataConfig
from registry.versions import Version
from tasks.config import TrainConfig
from tasks.drift import Drift, measure_drift
from tasks.retrain_config import RetrainConfig
from tasks.stage import stage
from tasks.watching import News, remember, untold
from turnout.references import Base


@stage("drift", retries=2)
def drift(config: RetrainConfig, train: TrainConfig, fresh: DataConfig, champion: Version, base: Base) -> Drift:
    """Compare fresh rows with what the champion learnt; the figures are an artifact too."""
    found = measure_drift(config, fresh, champion, base, double_quantisation=train.double_quantisation)
    if found.shifts:
        rows = [asdict(shift) for shift in found.shifts]
        about = f"{found.rows} fresh rows against {champion.served_name}"
        create_table_artifact(rows, key=f"{champion.name}-drift", description=about)
    return found


def tell(name: str, news: Sequence[News], parameters: dict[str, Any]) -> list[str]:
    """Emit an event for each of `news` that was not told yet; gives their names.

    `parameters` are those of the retraining that the event asks for, and become its payload.
    """
    log, new = get_run_logger(), untold(name, news)
    for each in new:
        log.info("%s: %s: %s", name, each.event, each.text)
        emit_event(
            each.event,
            resource={"prefect.resource.id": f"turnout.adapter.{name}", "prefect.resource.name": name},
            payload={**parameters, "because": each.text, "about": each.about},
        )
    if not new:
        log.info("%s: %s", name, "told before, nothing new since" if news else "nothing new")
    remember(name, new)
    return [each.event for each in new]
