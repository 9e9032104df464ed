"""Forwards a training's metrics to MLflow while it runs, without ever holding the training up."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from registry.runs import log_metrics
from tasks import progress
from turnout.errors import RegistryUnavailable

if TYPE_CHECKING:
    from mlflow import MlflowClient

GAUGES = ("loss", "grad_norm", "learning_rate", "eval_loss", "tokens_per_second", "epoch")


class MetricForwarder:
    """Called with each line of `metrics.jsonl`. Lines that MLflow did not take are sent again with the next one."""

    def __init__(self, client: "MlflowClient", run_id: str) -> None:
        self.client, self.run_id = client, run_id
        self._unsent: list[tuple[int, dict[str, float]]] = []

    def __call__(self, line: Mapping[str, Any]) -> None:
        metrics = {key: float(line[key]) for key in GAUGES if line.get(key) is not None}
        self._unsent.append((int(line["step"]), metrics))
        try:
            while self._unsent:
                log_metrics(self.client, self.run_id, *self._unsent[0])
                self._unsent.pop(0)
        except RegistryUnavailable as error:
            progress.update(f"MLflow does not take metrics now, training goes on: {error.message}")
