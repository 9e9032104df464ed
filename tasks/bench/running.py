"""Runs one bench or all of them, and writes what they found."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serving.machine import this_machine
from tasks.bench.catalogue import bench_module
from tasks.bench.environment import disturbances
from tasks.bench.filing import Files, write
from tasks.bench.page import bench_page
from tasks.bench.result import Result
from tasks.bench.setting import BenchSetting
from turnout.errors import TurnoutError
from turnout.files import write_atomically

REPORT = "report.html"


@dataclass
class Outcome:
    """What a run of several benches came to; `failures` holds the reasons of those that failed."""

    results: dict[str, Result] = field(default_factory=dict)
    files: dict[str, Files] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def run_bench(setting: BenchSetting, name: str, folder: Path, found: Sequence[str] = ()) -> tuple[Result, Files]:
    """Run one bench and write its files into `folder`; `found` are notes of what disturbed it from the start."""
    _prepare(setting, [name])
    result: Result = bench_module(name).run(setting)
    result.notes[:0] = found
    return result, write(result, folder)


def run_all(setting: BenchSetting, names: Sequence[str], folder: Path) -> Outcome:
    """Run the benches one after another, and write one HTML report of them; a failed one does not end the rest."""
    outcome = Outcome()
    found = disturbances(setting.home)
    _prepare(setting, names)
    for name in names:
        setting.progress(name)
        began = time.monotonic()
        try:
            outcome.results[name], outcome.files[name] = run_bench(setting, name, folder, found)
        except Exception as error:  # a fault of one bench, whatever it is, leaves the others their figures
            outcome.failures[name] = (
                error.message if isinstance(error, TurnoutError) else f"{type(error).__name__}: {error}"
            )
        outcome.seconds[name] = time.monotonic() - began
    write_atomically(folder / REPORT, bench_page(outcome.results, outcome.failures, outcome.seconds))
    return outcome


def figures(outcome: Outcome) -> dict[str, Any]:
    """The figures of each bench that are worth a look, by bench."""
    return {name: getattr(bench_module(name), "figures", _rows)(result) for name, result in outcome.results.items()}


def _rows(result: Result) -> list[dict[str, Any]]:
    return result.rows


def _prepare(setting: BenchSetting, names: Sequence[str]) -> None:
    """Start the engines of all benches at once where memory allows for it: their starts share the imports' time.

    An engine that does not start is its bench's failure, told when that one asks for it again.
    """
    if this_machine().gpus:
        return
    modules = [bench_module(name) for name in names]
    try:
        wanted = [each for module in modules if hasattr(module, "wanted") for each in module.wanted(setting)]
        setting.engines.prepare(wanted)
    except TurnoutError as error:
        setting.progress(error.message)
