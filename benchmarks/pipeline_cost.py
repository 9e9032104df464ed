"""What the pipeline costs beside its real work: one run in an empty home, then the same command again.

    python benchmarks/pipeline_cost.py [--set k=v]…      (options are handed to `turnout run`)

Prints a table and one JSON object. The bundled base is made beforehand, so its making is in neither figure.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from serving.ports import free_port


def run(home: Path, arguments: list[str]) -> tuple[dict[str, Any], float]:
    """One `turnout run`: its outcome and its wall-clock seconds."""
    began = time.monotonic()
    done = subprocess.run(
        [Path(sys.executable).with_name("turnout"), "run", "--json", *arguments],
        env={**os.environ, "TURNOUT_HOME": str(home)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout), round(time.monotonic() - began, 1)


def costs(result: dict[str, Any], seconds: float) -> dict[str, float]:
    """Seconds by what they went into; `own` is all that is not training, scoring, the engine's start or the proof."""
    stage = {name: each["seconds"] for name, each in result["stages"].items()}
    start = result["engine_start_seconds"]
    proof = round(stage["deploy"] - start, 1)
    own = round(seconds - stage["train"] - stage["score"] - stage["deploy"], 1)
    return {
        "all": seconds,
        "training": stage["train"],
        "scoring": stage["score"],
        "engine start": start,
        "load and proof": proof,
        "own": own,
    }


def main() -> None:
    from tasks.bases import resolve_base

    resolve_base("bundled")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        arguments = ["--set", f"serving.port={free_port('127.0.0.1')}", *sys.argv[1:]]
        try:
            first, again = costs(*run(home, arguments)), costs(*run(home, arguments))
        finally:
            down = [Path(sys.executable).with_name("turnout"), "down"]
            subprocess.run(down, env={**os.environ, "TURNOUT_HOME": str(home)}, check=True)
    print(f"{'seconds':<16}{'first run':>12}{'again':>12}")
    for what in first:
        print(f"{what:<16}{first[what]:>12.1f}{again[what]:>12.1f}")
    print(json.dumps({"first": first, "again": again}))


if __name__ == "__main__":
    main()
