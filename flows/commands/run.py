"""`turnout run`: the whole pipeline."""

from typing import Annotated, Any

import typer

from flows.commands.options import Debug, Json
from flows.output import TerminalWatcher, answer, err, out
from flows.server import prefect_api
from turnout.paths import home

EXAMPLES = """
Examples:

  turnout run                                   the bundled base and sample data, on this machine

  turnout run -c my.yaml --no-promote           train, prove and register; leave traffic where it is

  turnout run --set data.path=rows.jsonl --set name=support --set train.epochs=3

  turnout run --sweep train.learning_rate=5e-4,2e-3 --sweep train.lora_rank=8,16
"""


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(run)


def run(
    config: Annotated[str, typer.Option("-c", "--config", help="A preset's name, or a YAML file.")] = "tiny-cpu",
    values: Annotated[list[str] | None, typer.Option("--set", help="Set one value, as in train.epochs=3.")] = None,
    no_promote: Annotated[bool, typer.Option("--no-promote", help="Stop before traffic is switched.")] = False,
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", help="Try several values, as in train.lora_rank=8,16, and go on with the best."),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Train, score, register, deploy, judge and release one adapter version.

    With --sweep each combination of the values is trained and scored, and the one with the lowest eval loss goes on.
    The same command again goes on at the first stage that is not done. Exit code 3: the gate refused the version,
    which stays registered.
    """
    base = _check(config, values or [], sweep or [])
    watcher = TerminalWatcher()
    try:
        result = _run_flow(watcher, config, values or [], sweep or [], not no_promote, base, debug)
    finally:
        watcher.close()
    answer(result, json, show)
    return 3 if not result["gate"]["passed"] else 0


def _check(config: str, values: list[str], sweep: list[str]) -> str:
    """The base of a run whose settings and surroundings are fine, before anything is started for it."""
    from flows.checking import check
    from flows.grid import combinations
    from flows.presets.loading import load_preset

    settings = load_preset(config, values)
    check(settings, [each.train for each in combinations(config, values, sweep)] if sweep else [])
    return settings.base


def _run_flow(
    watcher: TerminalWatcher,
    config: str,
    values: list[str],
    sweep: list[str],
    promote: bool,
    base: str,
    debug: bool,
) -> dict[str, Any]:
    from tasks.bases import resolve_base
    from tasks.progress import timed, update, watched

    server = prefect_api(home(), verbose=debug)
    # The bundled base is made, once, while Prefect comes up; a stage of the flow finds it there.
    with watched(watcher), timed("base"):
        resolve_base(base, update)
    if server is not None:
        server.wait_until_ready()
    from flows.pipeline import pipeline
    from flows.sweep import sweep as sweep_flow

    with watched(watcher):
        if sweep:
            return sweep_flow(sweep, config, values, promote)
        return pipeline(config, values, promote)


def show(result: dict[str, Any]) -> None:
    """The outcome for people."""
    from rich.table import Table
    from rich.text import Text

    if result["sweep"]:
        out.print(_sweep_table(result["sweep"]))
    table = Table(title=f"{result['name']}-v{result['version']}", show_header=False, title_justify="left")
    table.add_row("eval loss", f"base {result['base_eval_loss']:.4f} → {result['eval_loss']:.4f}")
    if result["served_eval_loss"] is not None:
        table.add_row("served", f"{result['served_eval_loss']:.4f} on {result['served_base']}")
    for rule in result["gate"]["rules"]:
        table.add_row(Text("passed", "green") if rule["passed"] else Text("refused", "red"), rule["text"])
    outcome = "serves traffic" if result["promoted"] else "registered, not promoted"
    table.add_row("outcome", outcome)
    out.print(table)
    for warning in result["warnings"]:
        err.print(warning, style="yellow")
    if result["report"]:
        err.print(f"Report: {result['report']}")
    if result["promoted"]:
        err.print(f'Ask it: turnout ask {result["name"]} "…"    Engine: {result["engine"]}    Stop it: turnout down')


def _sweep_table(rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(*rows[0]["settings"], "eval loss", "seconds", "outcome", title="Sweep", title_justify="left")
    for row in rows:
        loss = "" if row["eval_loss"] is None else f"{row['eval_loss']:.4f}"
        seconds = "" if row["seconds"] is None else f"{row['seconds']:.1f}"
        outcome = row["error"] or ("went to the gate" if row["chosen"] else "")
        table.add_row(*map(str, row["settings"].values()), loss, seconds, outcome)
    return table
