"""`turnout up` and `turnout down`: the local stack."""

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.commands.options import Debug, Json
from flows.output import TerminalWatcher, answer, out
from turnout.paths import home


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: turnout up --set serving.port=8001")(up)
    app.command(epilog="Example: turnout down")(down)


def up(
    config: Annotated[str | None, typer.Option("-c", "--config", help="A preset's name, or a YAML file.")] = None,
    values: Annotated[list[str] | None, typer.Option("--set", help="Set one value, as in serving.port=8001.")] = None,
    routes: Annotated[Path | None, typer.Option("--routes", help="Serve these routes; no registry is asked.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Start engines, gateway and reconciler, with the champions loaded and probed; returns when they are ready.

    What runs already stays as it is, and what is missing is started, with the settings that were used last in this
    home but for the values given, or with those of a preset.
    """
    from flows.presets.loading import load_preset, with_serving
    from serving.engines import remembered
    from tasks.standing_up import stand_up

    kept = None if config else remembered(home())
    settings = with_serving(kept, values or []) if kept else load_preset(config or "tiny-cpu", values or [])
    watcher = TerminalWatcher()
    watcher.begin("up")
    try:
        result = stand_up(home(), settings.base, settings.serving, routes, watcher.update)
    finally:
        watcher.close()
    answer(result, json, _show_up)


def down(json: Json = False, debug: Debug = False) -> None:
    """Stop this home's gateway, reconciler and engines after the requests that they have."""
    from serving.stack import down as stop_all

    answer({"stopped": stop_all(home())}, json, _show_down)


def _show_up(result: dict[str, Any]) -> None:
    out.print(f"Gateway: {result['gateway']} (pid {result['pids']['gateway']})")
    for url in result["engines"]:
        out.print(f"Engine: {url}, base {result['base']}")
    for version in result["loaded"]:
        out.print(f"  serves {version}")
    for problem in result["problems"]:
        out.print(f"  {problem}", style="yellow")


def _show_down(result: dict[str, Any]) -> None:
    stopped = ", ".join(str(pid) for pid in result["stopped"])
    out.print(f"Stopped: {stopped}" if stopped else "Nothing was running.")
