"""The scheduled flow: train again when there is something new to learn from."""

from typing import Any

from prefect import flow

from flows.pipeline import pipeline
from flows.presets.loading import load_preset
from tasks import stages
from tasks.bases import resolve_base
from tasks.progress import watched
from tasks.steps import find_champion, learnt


@flow(name="retrain")
def retrain(preset: str = "tiny-cpu", overrides: list[str] | None = None) -> dict[str, Any]:
    """Run the pipeline, unless the champion was trained on the same rows of the same base with the same settings.

    Args:
        preset: a preset's name, or the path of a YAML file on the machine that runs the flow.
        overrides: settings of the form `train.epochs=3`, applied to the preset in order.
    """
    config = load_preset(preset, overrides or [])
    with watched():
        base = resolve_base(config.base)
        dataset = stages.prepare(config.data, base)
        champion = find_champion(config.name)
        if champion is not None and learnt(champion, config.train, dataset, base):
            reason = f"{champion.served_name} was trained on the same rows with the same settings"
            return {"name": config.name, "retrained": False, "version": champion.number, "reason": reason}
        return {"retrained": True, **pipeline(preset, overrides)}
