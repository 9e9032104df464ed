"""Which checkpoints of a training are whole, and the metrics that belong to them."""

import json
import shutil
from pathlib import Path
from typing import Any

from turnout.files import read_state, write_atomically, write_json

COMPLETE = "complete.json"
METRICS = "metrics.jsonl"


def mark_complete(checkpoint: Path) -> None:
    """Record the files of a checkpoint that has been written to its end."""
    write_json(checkpoint / COMPLETE, {file.name: file.stat().st_size for file in checkpoint.iterdir()})


def is_complete(checkpoint: Path) -> bool:
    files = read_state(checkpoint / COMPLETE, dict[str, int]) or {}
    return bool(files) and all(
        (checkpoint / name).is_file() and (checkpoint / name).stat().st_size == size for name, size in files.items()
    )


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rsplit("-", 1)[1])


def last_complete(folder: Path) -> Path | None:
    """The newest whole checkpoint in `folder`; those that a killed process left unfinished are removed."""
    checkpoints = sorted(folder.glob("checkpoint-*"), key=step_of)
    for checkpoint in [entry for entry in checkpoints if not is_complete(entry)]:
        shutil.rmtree(checkpoint)
        checkpoints.remove(checkpoint)
    return checkpoints[-1] if checkpoints else None


def read_metrics(run_folder: Path) -> list[dict[str, Any]]:
    """The lines of `metrics.jsonl`; those that a killed process or a full disk left unfinished do not count."""
    file = run_folder / METRICS
    if not file.is_file():
        return []
    lines = file.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    return [value for value in map(_parsed, lines) if isinstance(value, dict) and "step" in value]


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def cut_metrics(run_folder: Path, step: int) -> list[dict[str, Any]]:
    """Drop what was logged after `step`, so that a resumed training continues the curve; gives the lines kept."""
    kept = [line for line in read_metrics(run_folder) if line["step"] <= step]
    write_atomically(run_folder / METRICS, "".join(json.dumps(line) + "\n" for line in kept))
    return kept
