"""`turnout capacity train`: memory of a QLoRA run."""

from typing import Annotated, Any

import typer

from flows.commands.options import Debug, Json
from flows.output import answer, err, out

EXAMPLES = """
Examples:

  turnout capacity train                                         the CPU preset, on this machine

  turnout capacity train -c qwen2.5-7b --device gpu --model Qwen2.5-7B/config.json

  turnout capacity train --set train.batch_size=16 --set train.gradient_checkpointing=true
"""


def train(
    config: Annotated[str, typer.Option("-c", "--config", help="A preset's name, or a YAML file.")] = "tiny-cpu",
    values: Annotated[list[str] | None, typer.Option("--set", help="Set one value, as in train.batch_size=8.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="A folder, a config.json or a hub id; the preset's base if left out.")
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help="cpu or gpu; both if left out.")] = None,
    gpu: Annotated[list[str] | None, typer.Option("--gpu", help="A GPU's name; may be repeated.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Estimate the peak memory of a QLoRA training, and say which GPUs it fits.

    The estimate's error is that of the runs that were measured, each of which is estimated anew.
    """
    from flows.presets.loading import load_preset
    from serving.capacity.gpus import KNOWN, chosen_gpus
    from tasks.training_memory import estimate_training

    settings = load_preset(config, values or [])
    gpus = chosen_gpus(gpu) if gpu else list(KNOWN)
    with err.status("Reading the model") as status:
        result = estimate_training(
            model or settings.base, settings.train, settings.data.max_length, device, gpus, status.update
        )
    answer({"preset": config, **result}, json, _show)


def _show(result: dict[str, Any]) -> None:
    from rich.table import Table

    out.print(
        f"{result['model']}: {result['parameters']:,} parameters, {result['tokens']:,} tokens a step", style="bold"
    )
    table = Table(title="Peak of a training, GB", title_justify="left")
    table.add_column("what")
    for row in result["estimates"]:
        table.add_column(row["device"], justify="right")
    for part in ("weights", "adapter", "optimiser", "activations", "logits", "process", "total"):
        figures = (f"{row['bytes'][part] / 1e9:.2f}" for row in result["estimates"])
        table.add_row(part, *figures, style="bold" if part == "total" else "")
    out.print(table)
    error = result["error"]
    out.print(
        f"Measured peaks of {len(error['runs'])} runs were {error['lowest']:.2f} to {error['highest']:.2f} of such "
        "estimates:"
    )
    runs = Table()
    for column in ("run", "measured GB", "estimated GB"):
        runs.add_column(column, justify="left" if column == "run" else "right")
    for run in error["runs"]:
        runs.add_row(run["run"], f"{run['measured_gb']:.1f}", f"{run['estimated_gb']:.1f}")
    out.print(runs)
    if result["fits"] is not None:
        out.print(f"Fits: {', '.join(result['fits']) or 'none of the GPUs'}")
