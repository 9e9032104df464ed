"""The scheduled flow: train again when there is something new to learn from."""

from typing import Any

from prefect import flow, get_run_logger

from flows.pipeline import pipeline
from flows.presets.loading import load_preset
from tasks import stages
from tasks.approval import A_DAY_S
from tasks.bases import resolve_base
from tasks.progress import watched
from tasks.retraining import alone, already_tried


@flow(name="retrain")
def retrain(
    preset: str = "tiny-cpu",
    overrides: list[str] | None = None,
    because: str = "",
    approval_timeout_s: int = A_DAY_S,
) -> dict[str, Any]:
    """Run the pipeline, gate and all, unless the same rows of the same base were trained on with the same settings.

    A name is retrained once at a time: a run that finds another one under way leaves it to that.

    Args:
        preset: a preset's name, or the path of a YAML file on the machine that runs the flow.
        overrides: settings of the form `train.epochs=3`, applied to the preset in order.
        because: what asked for it, as the flow `watch` words it; empty for a schedule or a person.
        approval_timeout_s: with `gate.approval=required`, the seconds after which nobody is waited for any more.
    """
    config = load_preset(preset, overrides or [])
    with watched(), alone(config.name) as first:
        if not first:
            return _left(config.name, f"a retraining of {config.name} is under way, this one leaves it to that")
        base = resolve_base(config.base)
        dataset = stages.prepare(config.data, base)
        if tried := already_tried(config.name, config.train, dataset, base):
            reason = f"{because}, but there are no new rows: {tried.reason}" if because else tried.reason
            return {**_left(config.name, reason), "version": tried.version}
        # Its stages belong to this run, so that it is this one that waits for a person.
        result = pipeline.fn(preset, overrides, approval_timeout_s=approval_timeout_s)
        return {"retrained": True, "because": because, **result}


def _left(name: str, reason: str) -> dict[str, Any]:
    """The outcome where nothing was trained, which the run's log says too."""
    get_run_logger().info("%s: nothing trained: %s", name, reason)
    return {"name": name, "retrained": False, "reason": reason}
