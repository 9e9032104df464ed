"""Measure the release log: appends from several processes at once, and whether each parent got one effect.

    python benchmarks/release_log.py [--writers 4] [--appends 1000] [--backend sqlite|server|postgres]

Runs under a name of its own on a fresh registry: SQLite, an `mlflow server` on SQLite, or one on a new PostgreSQL
(which must be installed); without --backend on the one that MLFLOW_TRACKING_URI names, or else on SQLite.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from registry.releases import Release, append, fold, read_log
from registry.store import connect, tracking_uri
from tests.registry.backends import mlflow_server, postgres, postgres_programs
from tests.registry.material import register_one
from turnout.errors import RegistryConflict
from turnout.paths import Home


def contend(home: Home, name: str, appends: int, start: Any, results: Any) -> None:
    """Read, decide, append, as a release manager does, `appends` times; losing is part of it."""
    client = connect(home)
    won: list[int] = []
    seconds: list[float] = []
    release = Release()
    start.wait()
    for _ in range(appends):
        release = fold(read_log(client, name, after=release.head), release)
        begin = time.perf_counter()
        with suppress(RegistryConflict):
            won.append(append(client, name, kind="promote", champion=1, parent=release.head).number)
        seconds.append(time.perf_counter() - begin)
    results.put((won, seconds))


def measure(home: Home, writers: int, appends: int) -> dict[str, Any]:
    client = connect(home)
    name = f"bench-{uuid.uuid4().hex[:8]}"
    register_one(client, home, name)
    spawn = multiprocessing.get_context("spawn")
    start, results = spawn.Barrier(writers + 1), spawn.Queue()
    shares = [appends // writers + (index < appends % writers) for index in range(writers)]
    processes = [spawn.Process(target=contend, args=(home, name, share, start, results)) for share in shares]
    for process in processes:
        process.start()
    start.wait()
    begin = time.perf_counter()
    outcomes = [results.get() for _ in processes]
    elapsed = time.perf_counter() - begin
    for process in processes:
        process.join()

    begin = time.perf_counter()
    log = read_log(client, name)
    reading = time.perf_counter() - begin
    effective = [event.number for event in log if event.effective]
    latencies = sorted(second for _, seconds in outcomes for second in seconds)
    return {
        "registry": tracking_uri(home).partition(":")[0],
        "writers": writers,
        "appends": appends,
        "events": len(log),
        "effective": len(effective),
        "contiguous": [event.number for event in log] == list(range(1, len(log) + 1)),
        "one_effect_for_each_parent": len({log[number - 1].parent for number in effective}) == len(effective),
        "told_right": sorted(number for won, _ in outcomes for number in won) == effective,
        "seconds": round(elapsed, 2),
        "append_p50_ms": round(1000 * statistics.median(latencies), 1),
        "append_p95_ms": round(1000 * latencies[int(0.95 * (len(latencies) - 1))], 1),
        "append_p99_ms": round(1000 * latencies[int(0.99 * (len(latencies) - 1))], 1),
        "read_log_ms": round(1000 * reading, 1),
    }


@contextmanager
def registry(backend: str | None, folder: Path) -> Iterator[Home]:
    """A home whose registry is of the kind `backend`, through MLFLOW_TRACKING_URI."""
    with ExitStack() as running:
        if backend == "sqlite":
            os.environ.pop("MLFLOW_TRACKING_URI", None)
        elif backend:
            store = f"sqlite:///{folder}/server.db"
            if backend == "postgres":
                programs = postgres_programs()
                if programs is None:
                    sys.exit("no initdb on PATH or in /usr/lib/postgresql/*/bin: install PostgreSQL")
                store = running.enter_context(postgres(programs)).uri
            os.environ["MLFLOW_TRACKING_URI"] = running.enter_context(mlflow_server(folder, store)).url
        yield Home(folder / "home")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--appends", type=int, default=1000)
    parser.add_argument("--backend", choices=["sqlite", "server", "postgres"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, registry(arguments.backend, Path(folder)) as home:
        figures = measure(home, arguments.writers, arguments.appends)
    print(json.dumps({"backend": arguments.backend} | figures, indent=2))


if __name__ == "__main__":
    main()
