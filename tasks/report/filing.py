"""Draws a run's report and files it: in the home, with the MLflow run, and named by the version."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from registry.reports import keep_report
from registry.store import connect
from tasks.checkpoints import read_metrics
from tasks.report.outcome import Finished
from tasks.report.page import report_page
from tasks.report.plots import length_bars, loss_curves
from turnout import pages
from turnout.files import write_atomically
from turnout.paths import Home, home


def write_report(here: Home, run: Finished, result: Mapping[str, Any]) -> list[Path]:
    """Write the report of `run` with its outcome `result`: the HTML page first, then its plots as PNG files."""
    figures = {
        "loss": ("training's loss and learning rate", loss_curves(read_metrics(_run_folder(run)), run.scores)),
        "lengths": ("rows by their length in tokens", length_bars(run.dataset)),
    }
    plots = {what: (words, pages.png(figure)) for what, (words, figure) in figures.items() if figure is not None}
    here.reports.mkdir(parents=True, exist_ok=True)
    files = [here.reports / f"{run.version.served_name}.html"]
    write_atomically(files[0], report_page(run, result, dict(plots.values())))
    for what, (_words, data) in plots.items():
        files.append(here.reports / f"{run.version.served_name}-{what}.png")
        files[-1].write_bytes(data)
    return files


def file_report(run: Finished, result: dict[str, Any]) -> None:
    """Write the report, keep it in the registry, and note in `result` where it is.

    Raises:
        RegistryUnavailable: MLflow did not take it; it is in the home.
    """
    here = home()
    files = write_report(here, run, result)
    result["report"] = str(files[0])
    address = keep_report(connect(here), run.version, files)
    result["report_url"] = address if address.startswith("http") else None


def _run_folder(run: Finished) -> Path:
    """Where the adapter was trained: its metrics lie beside it."""
    return Path(run.adapter.path).parent
