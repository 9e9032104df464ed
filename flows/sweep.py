"""The sweep: several settings are trained on the same rows, and the best of them goes through the pipeline."""

from typing import Any

from prefect import flow, unmapped

from flows.checking import check
from flows.grid import combinations
from flows.pipeline import pipeline
from flows.presets.loading import load_preset
from tasks import stages
from tasks.bases import resolve_base
from tasks.in_order import InOrder
from tasks.progress import watched
from tasks.sweeping import Sweep, parent_run, sweep_rows


@flow(name="sweep", task_runner=InOrder())
def sweep(
    grid: list[str], preset: str = "tiny-cpu", overrides: list[str] | None = None, promote: bool = True
) -> dict[str, Any]:
    """Train and score each combination, and run the pipeline with the one that has the lowest eval loss.

    Args:
        grid: settings and their values, of the form `train.lora_rank=8,16`; all combinations of them are tried.
        preset: a preset's name, or the path of a YAML file on the machine that runs the flow.
        overrides: settings of the form `train.epochs=3`, applied to the preset in order.
        promote: switch traffic to the version if the gate lets it pass.
    """
    values = overrides or []
    config, tried = load_preset(preset, values), combinations(preset, values, grid)
    check(config, [each.train for each in tried])
    with watched() as run:
        base = resolve_base(config.base)
        dataset = stages.prepare(config.data, base)
        about = Sweep(config.name, dataset, base, config.score, write_parity=config.serving.base == "parity")
        with parent_run(about, tried) as parent:
            futures = stages.combination.map(tried, unmapped(about), parent)
            run.sweep = sweep_rows(tried, [future.result(raise_on_failure=False) for future in futures])
        best = next(each for each, row in zip(tried, run.sweep, strict=True) if row["chosen"])
        # Its stages belong to this run, so that it is this one that waits for a person.
        return pipeline.fn(preset, [*values, *best.overrides], promote)
