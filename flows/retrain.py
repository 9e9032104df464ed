"""The scheduled flow: train again when there is something new to learn from."""

from typing import Any

from prefect import flow

from flows.pipeline import pipeline
from flows.presets.loading import load_preset
from tasks import stages
from tasks.progress import watched


@flow(name="retrain")
def retrain(preset: str = "tiny-cpu", overrides: list[str] | None = None) -> dict[str, Any]:
    """Run the pipeline, unless the champion was trained on the same data with the same settings.

    Args:
        preset: a preset's name, or the path of a YAML file on the machine that runs the flow.
        overrides: settings of the form `train.epochs=3`, applied to the preset in order.
    """
    config = load_preset(preset, overrides or [])
    with watched():
        dataset = stages.prepare(config, stages.resolve(config))
        if stages.is_what_champion_learnt(config, dataset):
            return {"name": config.name, "retrained": False, "reason": "neither the data nor the settings changed"}
        return {"retrained": True, **pipeline(preset, overrides)}
