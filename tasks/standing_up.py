"""`turnout up`: the engine with the champions of the release log, or of the last good routes, loaded and probed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from serving.config import ServingConfig
from serving.routes import load_routes, read_routes, update_routes
from serving.stack import up
from tasks.bases import ensure_parity_base, resolve_base
from tasks.following import follow_log
from turnout.files import read_state
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
        given, problems = load_routes(routes_file), []
        update_routes(home, lambda _: given)
    else:
        problems = follow_log(home, base_name, config)
    routes = read_routes(home)
    base = routes.base if routes else _base(base_name, config)

    def report(seconds: float, line: str) -> None:
        update(f"engine starts, {seconds:.0f} s")

    stack = up(home, config, base, report)
    return {
        "gateway": None,
        "engine": stack.engine.url,
        "pids": {"engine": stack.engine.pid, "gateway": None},
        "base": stack.engine.base.name,
        "loaded": [placed.name for placed in stack.restored.placed],
        "problems": [*problems, *stack.restored.problems],
    }


def remembered(home: Home) -> ServingConfig | None:
    """The settings that the engine of this home was last started with; None before the first start."""
    return read_state(home.serving, ServingConfig)


def _base(name: str, config: ServingConfig) -> Base:
    base = resolve_base(name)
    return ensure_parity_base(base) if config.base == "parity" else base
