"""`turnout bench`: measures engines on this machine."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.bench_tables import show_all, show_bench, show_ratios
from flows.commands.options import Debug, Json
from flows.output import TerminalWatcher, answer
from tasks.bench.catalogue import BENCHES, title
from turnout.errors import BadInput
from turnout.paths import home

if TYPE_CHECKING:
    from tasks.bench.setting import BenchSetting

_EXAMPLES = {
    "latency": "turnout bench latency --quick",
    "load": "turnout bench load --users 1,10,50 --adapter incidents",
    "batching": "turnout bench batching --users 50",
    "preemption": "turnout bench preemption --set serving.dtype=bfloat16",
    "ladder": "turnout bench ladder --adapter incidents",
    "engines": "turnout bench engines --users 32",
    "gateway": "turnout bench gateway --users 1,50",
    "memory": "turnout bench memory -c my-preset.yaml",
}

MOST_USERS = 10_000
"""At a time; each is a connection of the load generator's, and a place in the engine."""

Config = Annotated[str, typer.Option("-c", "--config", help="A preset's name, or a YAML file.")]
Values = Annotated[list[str] | None, typer.Option("--set", help="Set one value, as in serving.dtype=float32.")]
Quick = Annotated[bool, typer.Option("--quick", help="The smallest load that still shows the effect.")]
Adapter = Annotated[str | None, typer.Option("--adapter", help="A name, whose champion is taken, or a folder.")]
Users = Annotated[str, typer.Option("--users", help="Numbers of users at a time.")]
Price = Annotated[str, typer.Option("--prices", help="US dollars an hour: a GPU's, and the CPUs' (bench engines).")]
Out = Annotated[Path | None, typer.Option("--out", help="Write the files here, not into this home.")]


def add_to(app: typer.Typer) -> None:
    bench = typer.Typer(
        name="bench",
        help="Measure engines on this machine: each bench starts its own, and stops them again.",
        no_args_is_help=True,
    )
    for name in BENCHES:
        bench.command(name, help=f"{title(name)}.", epilog=f"Example: {_EXAMPLES[name]}")(_command(name))
    bench.command("all", epilog="Example: turnout bench all --quick --adapter incidents")(all_benches)
    bench.command("compare", epilog="Example: turnout bench compare before/load.json after/load.json")(compare)
    app.add_typer(bench)


def _command(name: str) -> Callable[..., None]:
    def run(
        config: Config = "tiny-cpu",
        values: Values = None,
        quick: Quick = False,
        adapter: Adapter = None,
        users: Users = "1,10,50",
        prices: Price = "4.10,1.536",
        out_folder: Out = None,
        json: Json = False,
        debug: Debug = False,
    ) -> None:
        from tasks.bench.environment import disturbances
        from tasks.bench.running import run_bench

        folder = _folder(out_folder)
        found = disturbances(home())
        with _session(name, config, values, quick, adapter, users, prices) as setting:
            result, files = run_bench(setting, name, folder, found)
        written = {"json": str(files.json), "markdown": str(files.markdown), "plot": files.plot and str(files.plot)}
        answer({"bench": name, "rows": result.rows, "notes": result.notes, "files": written}, json, show_bench)

    return run


def all_benches(
    config: Config = "tiny-cpu",
    values: Values = None,
    quick: Quick = False,
    adapter: Adapter = None,
    users: Users = "1,10,50",
    prices: Price = "4.10,1.536",
    out_folder: Out = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run every bench and write one HTML report with their plots; exit code 1 if one of them failed."""
    from tasks.bench.running import REPORT, figures, run_all

    folder, began = _folder(out_folder), time.monotonic()
    with _session("benches", config, values, quick, adapter, users, prices) as setting:
        outcome = run_all(setting, list(BENCHES), folder)
    result = {
        "report": str(folder / REPORT),
        "results": {name: str(files.json) for name, files in outcome.files.items()},
        "seconds": round(time.monotonic() - began, 1),
        "figures": figures(outcome),
        "failures": outcome.failures,
    }
    answer(result, json, show_all)
    if outcome.failures:
        raise typer.Exit(1)


def compare(
    a: Annotated[Path, typer.Argument(help="The JSON file of one result.")],
    b: Annotated[Path, typer.Argument(help="The JSON file of another.")],
    across: Annotated[
        list[str] | None, typer.Option("--across", help="What may differ: hardware, versions, settings, model, …")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """The figures of B over those of A; results of unlike runs are refused, with every difference named."""
    from tasks.bench import result

    first = result.read_result(a)
    ratios = result.compare(first, result.read_result(b), across or ())
    answer({"bench": first.bench, "a": str(a), "b": str(b), "ratios": ratios}, json, show_ratios)


@contextmanager
def _session(
    stage: str, config: str, values: list[str] | None, quick: bool, adapter: str | None, users: str, prices: str
) -> Iterator["BenchSetting"]:
    from flows.presets.loading import load_preset
    from tasks.bench.prices import parse_prices
    from tasks.bench.session import bench_session

    numbers, settings = parse_users(users), load_preset(config, values or [])
    watcher = TerminalWatcher()
    watcher.begin(stage)
    given: dict[str, Any] = {"adapter": adapter, "quick": quick, "users": numbers, "prices": parse_prices(prices)}
    told = watcher.update
    try:
        with bench_session(home(), settings.base, settings.serving, settings.data, progress=told, **given) as setting:
            yield setting
    finally:
        watcher.close()


def _folder(given: Path | None) -> Path:
    """Where the files go: a folder of this run's own, made with the first file, unless one was given."""
    if given is None:
        return (home().root / "bench" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")).absolute()
    given.mkdir(parents=True, exist_ok=True)
    try:
        TemporaryFile(dir=given).close()  # a folder that takes no files is told before the bench, not after
    except OSError as error:
        error.filename = str(given)
        raise
    return given.absolute()


def parse_users(text: str) -> tuple[int, ...]:
    """`1,10,50` as numbers, each once, in order."""
    try:
        users = sorted({int(word) for word in text.split(",")})
    except ValueError:
        users = []
    if not users or not 1 <= users[0] <= users[-1] <= MOST_USERS:
        raise BadInput(
            f"--users {text!r:.80} is not a list of numbers from 1 to {MOST_USERS:,}", "Give them so: --users 1,10,50"
        )
    return tuple(users)
