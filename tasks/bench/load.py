"""`turnout bench load`: requests a second and latency at several numbers of users, and what the engine takes."""

from typing import TYPE_CHECKING, Any

from tasks.bench.engines import Wanted
from tasks.bench.environment import subject
from tasks.bench.load_generator import DEFINITIONS
from tasks.bench.loads import Load
from tasks.bench.measuring import observe
from tasks.bench.plots import by_users
from tasks.bench.result import Result
from tasks.bench.setting import BenchSetting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TOKENS, _QUICK_TOKENS = 128, 32
_ROUNDS, _QUICK_ROUNDS = 3, 1
_FEWEST, _QUICK_FEWEST = 6, 3


def closed_loop(setting: BenchSetting, users: int) -> Load:
    """The load of `users` clients, several requests each; `--quick` asks for short and few ones."""
    tokens = _QUICK_TOKENS if setting.quick else _TOKENS
    rounds, fewest = (_QUICK_ROUNDS, _QUICK_FEWEST) if setting.quick else (_ROUNDS, _FEWEST)
    return Load(users, max(users * rounds, fewest), tokens, tokens, warmups=1, seed=users)


def loop_settings(setting: BenchSetting) -> dict[str, Any]:
    """What `closed_loop` comes to, for a result."""
    loads = [closed_loop(setting, users) for users in setting.users]
    lengths = {"input_tokens": loads[0].input_tokens, "output_tokens": loads[0].output_tokens}
    requests = {f"requests at {load.users} users": load.requests for load in loads}
    return {"users": list(setting.users), **lengths, **requests, "prefix_caching": False}


def wanted(setting: BenchSetting) -> list[Wanted]:
    """The engine of the kind that `serving.engines` names first."""
    return [setting.engine(kind=setting.serving.engines[0])]


def run(setting: BenchSetting) -> Result:
    """The base, and the adapter where there is one, at each number of users."""
    models = {"base": setting.base.name} | ({"adapter": setting.adapter.name} if setting.adapter else {})
    rows, notes = [], [DEFINITIONS]
    [asked] = wanted(setting)
    with setting.engines.running(asked) as engine:
        for configuration, model in models.items():
            for users in setting.users:
                setting.progress(f"{configuration}, {users} users")
                seen = observe(setting, engine, model, closed_loop(setting, users))
                figures = {**seen.measured.row(), "ttft_p50_ms": seen.measured.ttft_ms[50]}
                figures["itl_p50_ms"] = seen.measured.itl_ms[50]
                usage = {**seen.sampler.usage(), "client_cores": seen.measured.client_cores}
                rows.append({"configuration": configuration, "users": users, **figures, **usage})
                notes += seen.notes
        settings = loop_settings(setting) | {"engine": engine.kind, "max_num_seqs": engine.config.max_num_seqs}
    return Result("load", subject(setting.base, setting.adapter), settings, rows, notes)


def draw(result: Result) -> "Figure | None":
    return by_users(result.rows, ["requests_per_s", "p99_ms"])


def figures(result: Result) -> dict[str, Any]:
    columns = ("requests_per_s", "tokens_per_s", "p50_ms", "p95_ms", "p99_ms", "failed_percent")
    return {
        f"{row['configuration']}, {row['users']} users": {column: row[column] for column in columns}
        for row in result.rows
    }
