"""`turnout bench gateway`: the same load straight to an engine and through Turnout's gateway, in turns."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from serving.gateway.launching import launch_workers, stop_workers, wait_workers
from serving.ports import free_port
from serving.records import Engine
from serving.replicas import describe
from serving.routes import Routes
from tasks.bench.engines import Wanted
from tasks.bench.environment import subject
from tasks.bench.load import closed_loop, loop_settings
from tasks.bench.load_generator import DEFINITIONS
from tasks.bench.loads import Measured
from tasks.bench.measuring import observe
from tasks.bench.plots import by_users
from tasks.bench.result import Result, Row
from tasks.bench.setting import BenchSetting
from turnout.files import write_json
from turnout.paths import Home
from turnout.references import to_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GOAL = 0.98
"""Of the engine's own requests a second."""
_ROUNDS, _QUICK_ROUNDS = 3, 1
_READY_S = 60
_DIRECT, _THROUGH = "direct", "gateway"


def wanted(setting: BenchSetting) -> list[Wanted]:
    return [setting.engine()]


def run(setting: BenchSetting) -> Result:
    """Both ways at each number of users, asking for the base; a row is the median round by requests a second."""
    rounds = _QUICK_ROUNDS if setting.quick else _ROUNDS
    runs: dict[tuple[str, int], list[Measured]] = {}
    notes = [DEFINITIONS]
    with setting.engines.running(setting.engine()) as engine, gateway_before(setting, engine) as url:
        for turn in range(rounds):
            for users in setting.users:
                ways = [(_DIRECT, engine.url), (_THROUGH, url)]
                for way, at in ways if turn % 2 == 0 else reversed(ways):
                    setting.progress(f"{way}, {users} users, round {turn + 1} of {rounds}")
                    load = replace(closed_loop(setting, users), seed=users + 1000 * turn)
                    seen = observe(setting, engine, setting.base.name, load, url=at)
                    runs.setdefault((way, users), []).append(seen.measured)
                    notes += seen.notes
        settings = loop_settings(setting) | {"rounds": rounds, "workers": setting.serving.gateway.workers}
    if rounds == 1:
        notes.append("One round each: engines vary by a tenth from one to the next. Without --quick there are three.")
    rows = [_row(way, users, _median(found)) for (way, users), found in runs.items()]
    return Result("gateway", subject(setting.base), settings, rows, notes + compared(rows))


def draw(result: Result) -> "Figure | None":
    return by_users(result.rows, ["requests_per_s", "ttft_p50_ms"])


def figures(result: Result) -> dict[str, Any]:
    """What the gateway leaves of the requests a second, and adds to the first token, at each number of users."""
    return _added(result.rows)


def _added(rows: list[Row]) -> dict[str, dict[str, float]]:
    direct = {row["users"]: row for row in rows if row["configuration"] == _DIRECT}
    return {
        f"{row['users']} users": {
            "ratio": row["requests_per_s"] / direct[row["users"]]["requests_per_s"],
            "added_ttft_p50_ms": row["ttft_p50_ms"] - direct[row["users"]]["ttft_p50_ms"],
            "failed_percent": row["failed_percent"],
        }
        for row in rows
        if row["configuration"] == _THROUGH
    }


def compared(rows: list[Row]) -> list[str]:
    """The ratio at each number of users in words, against the goal."""
    return [
        f"At {users} the gateway gives {each['ratio']:.3f} of the engine's own requests a second (goal {GOAL}), and "
        f"moves the median first token by {each['added_ttft_p50_ms']:+.1f} ms."
        for users, each in _added(rows).items()
    ]


@contextmanager
def gateway_before(setting: BenchSetting, engine: Engine) -> Iterator[str]:
    """The URL of a gateway of its own that has `engine` as its only replica; it ends with the block."""
    home = gateway_home(setting.home)
    config = setting.serving.gateway.model_copy(update={"port": free_port(setting.serving.gateway.host)})
    try:
        write_json(home.routes, to_json(_routes(engine)))
        launch_workers(home, config)
        wait_workers(home, config, _READY_S)
        yield f"http://{config.host}:{config.port}"
    finally:
        stop_gateway(setting.home)


def gateway_home(home: Home) -> Home:
    return Home(home.root / "bench" / "gateway")


def stop_gateway(home: Home) -> None:
    """Stop the gateway of a bench in `home`, also one that a killed bench left."""
    stop_workers(gateway_home(home))
    shutil.rmtree(gateway_home(home).root, ignore_errors=True)


def _routes(engine: Engine) -> Routes:
    """The engine, with no adapter: it is asked for its base."""
    return Routes(1, {engine.base.sha256: engine.base}, replicas=(describe(engine, ()),))


def _median(runs: list[Measured]) -> Measured:
    return sorted(runs, key=lambda each: each.requests_per_s)[len(runs) // 2]


def _row(way: str, users: int, measured: Measured) -> Row:
    figures = {"ttft_p50_ms": measured.ttft_ms[50], "itl_p50_ms": measured.itl_ms[50]}
    return {"configuration": way, "users": users, **measured.row(), **figures}
