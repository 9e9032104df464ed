"""`turnout bench batching`: continuous batching against one request at a time (`--max-num-seqs 1`)."""

from typing import TYPE_CHECKING, Any

from tasks.bench.engines import Wanted
from tasks.bench.environment import subject
from tasks.bench.load import closed_loop, loop_settings
from tasks.bench.load_generator import DEFINITIONS
from tasks.bench.measuring import observe
from tasks.bench.plots import by_users
from tasks.bench.result import Result, Row
from tasks.bench.setting import BenchSetting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GOAL = 6.1
"""Times the requests a second at 50 users, as the article that this bench comes from measured on an A40."""
_GOAL_USERS = 50
_CONTINUOUS, _STATIC = "continuous", "one at a time"


def wanted(setting: BenchSetting) -> list[Wanted]:
    return list(_configurations(setting).values())


def run(setting: BenchSetting) -> Result:
    """The same load on both engines, at each number of users; the base answers, whatever adapter there is."""
    rows: list[Row] = []
    notes = [DEFINITIONS]
    for configuration, asked in _configurations(setting).items():
        with setting.engines.running(asked) as engine:
            for users in setting.users:
                setting.progress(f"{configuration}, {users} users")
                seen = observe(setting, engine, setting.base.name, closed_loop(setting, users))
                rows.append({"configuration": configuration, "users": users, **seen.measured.row()})
                notes += seen.notes
    settings = loop_settings(setting) | {"max_num_seqs": setting.engine().config.max_num_seqs}
    return Result("batching", subject(setting.base), settings, rows, notes + compared(rows))


def draw(result: Result) -> "Figure | None":
    return by_users(result.rows, ["requests_per_s", "p99_ms"])


def figures(result: Result) -> dict[str, Any]:
    """The ratio of requests a second and the change of P99 in percent, at each number of users, and the goal."""
    found: dict[str, Any] = {f"{users} users": _gain(*pair) for users, pair in _pairs(result.rows).items()}
    if goal := found.get(f"{_GOAL_USERS} users"):
        found["goal"] = {"ratio": GOAL, "users": _GOAL_USERS, "met": goal["ratio"] >= GOAL}
    return found


def _configurations(setting: BenchSetting) -> dict[str, Wanted]:
    return {_CONTINUOUS: setting.engine(), _STATIC: setting.engine(max_num_seqs=1)}


def _pairs(rows: list[Row]) -> dict[int, tuple[Row, Row]]:
    """Users → the rows of continuous batching and of one request at a time."""
    static = {row["users"]: row for row in rows if row["configuration"] == _STATIC}
    return {
        row["users"]: (row, static[row["users"]])
        for row in rows
        if row["configuration"] == _CONTINUOUS and row["users"] in static
    }


def _gain(continuous: Row, static: Row) -> dict[str, float]:
    return {
        "ratio": continuous["requests_per_s"] / static["requests_per_s"],
        "p99_change_percent": 100 * (continuous["p99_ms"] / static["p99_ms"] - 1),
    }


def compared(rows: list[Row]) -> list[str]:
    """The gain at each number of users in words, and whether the goal is met."""
    lines = []
    for users, (continuous, static) in _pairs(rows).items():
        gain = _gain(continuous, static)
        line = (
            f"At {users} users continuous batching answers {gain['ratio']:.1f} × as many requests a second "
            f"({static['requests_per_s']:.2f} → {continuous['requests_per_s']:.2f}), and P99 changes by "
            f"{gain['p99_change_percent']:+.0f} % ({static['p99_ms']:,.0f} → {continuous['p99_ms']:,.0f} ms)."
        )
        if users == _GOAL_USERS:
            line += f" The goal of {GOAL} × is {'met' if gain['ratio'] >= GOAL else 'not met'}."
        lines.append(line)
    return lines
