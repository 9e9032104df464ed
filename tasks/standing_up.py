"""`turnout up`: the engine with the champions of the release log, or of the last good routes, loaded and probed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from serving.config import ServingConfig
from serving.routes import load_routes, update_routes
from serving.stack import up
from tasks.bases import ensure_parity_base, resolve_base
from tasks.served_base import base_finder
from turnout.paths import Home
from turnout.references import Base


def stand_up(
    home: Home, base_name: str, config: ServingConfig, routes_file: Path | None, update: Callable[[str], None]
) -> dict[str, Any]:
    """Bring the stack up; what runs already stays.

    Args:
        base_name: the base to serve where nothing was released yet.
        routes_file: routes to serve instead of the registry's.

    Raises:
        EngineError: the engine cannot be started, or another base is being served.
        BadInput: the routes file cannot be read.
    """
    if routes_file is not None:
        given = replace(load_routes(routes_file), replicas=())
        update_routes(home, lambda _: given)

    def report(seconds: float, line: str) -> None:
        update(f"engine starts, {seconds:.0f} s")

    find_base = base_finder(base_name, config)
    stack = up(home, config, lambda: _base(base_name, config), find_base, report, follow_log=routes_file is None)
    loaded = (
        {name for replica in stack.outcome.routes.replicas for name in replica.ready} if stack.outcome.routes else ()
    )
    engine, worker = stack.engines[0], stack.workers[0]
    return {
        "gateway": worker.url,
        "engine": engine.url,
        "engines": [each.url for each in stack.engines],
        "pids": {"engine": engine.pid, "gateway": worker.pid, "reconciler": stack.reconciler_pid},
        "base": engine.base.name,
        "loaded": sorted(loaded),
        "problems": [*stack.problems, *(problem for told in stack.outcome.problems.values() for problem in told)],
    }


def _base(name: str, config: ServingConfig) -> Base:
    base = resolve_base(name)
    return ensure_parity_base(base) if config.base == "parity" else base
