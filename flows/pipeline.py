"""The main flow: a dataset becomes a proven adapter version that serves traffic."""

from typing import Any

from prefect import flow

from flows.presets.loading import load_preset
from tasks import stages
from tasks.progress import watched


@flow(name="pipeline")
def pipeline(preset: str = "tiny-cpu", overrides: list[str] | None = None, promote: bool = True) -> dict[str, Any]:
    """Train, score, register, deploy, judge and release one adapter version.

    Args:
        preset: a preset's name, or the path of a YAML file on the machine that runs the flow.
        overrides: settings of the form `train.epochs=3`, applied to the preset in order.
        promote: switch traffic to the version if the gate lets it pass.
    """
    config = load_preset(preset, overrides or [])
    with watched() as run:
        base = stages.resolve(config)
        dataset = stages.prepare(config, base)
        adapter = stages.train(config, dataset, base)
        scores = stages.score(config, dataset, adapter, base)
        version = stages.register(config, dataset, adapter, scores, base)
        served = stages.deploy(config, version, dataset, scores, base)
        verdict = stages.gate(config, version, scores, served)
        release = stages.release(config, version, served, verdict, promote)
        return stages.report(config, version, scores, served, verdict, release, run.stages)
