"""Forwards a training's metrics to MLflow while it runs, without ever holding the training up."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from registry.runs import last_step, log_metrics
from tasks import progress
from turnout.errors import RegistryUnavailable

if TYPE_CHECKING:
    from mlflow import MlflowClient

GAUGES = ("loss", "grad_norm", "learning_rate", "eval_loss", "tokens_per_second", "epoch")


class MetricForwarder:
    """Called with each line of `metrics.jsonl`. What MLflow has already is left out, so lines may come twice.

    Lines that MLflow does not take are sent again with the next one, and at the latest by `send`.
    """

    def __init__(self, client: "MlflowClient", run_id: str) -> None:
        self.client, self.run_id = client, run_id
        self._last = last_step(client, run_id, "loss")
        self._unsent: list[tuple[int, dict[str, float]]] = []

    def __call__(self, line: Mapping[str, Any]) -> None:
        try:
            self.send([line])
        except RegistryUnavailable as error:
            progress.update(f"MLflow does not take metrics now, training goes on: {error.message}")

    def send(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Raises RegistryUnavailable when MLflow does not take them all."""
        for line in lines:
            metrics = {key: float(line[key]) for key in GAUGES if line.get(key) is not None}
            if line["step"] > self._last:
                self._unsent.append((int(line["step"]), metrics))
        while self._unsent:
            log_metrics(self.client, self.run_id, *self._unsent[0])
            self._unsent.pop(0)
