"""`turnout data check`: what is wrong with a dataset, before anything is trained on it."""

from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer

from flows.commands.options import Debug, Json
from flows.output import TerminalWatcher, answer, err, out
from turnout.errors import BadInput
from turnout.files import write_atomically

EXAMPLES = """
Examples:

  turnout data check rows.jsonl                       as `turnout run` would check it

  turnout data check rows/ --html report.html         a folder of files, and a page with plots

  turnout data check rows.csv --set data.checks.leaked.action=warn --json
"""

_COLOURS = {"refuse": "red", "warn": "yellow", "ok": "green", "off": "dim"}


def check(
    file: Annotated[str, typer.Argument(help="A file, a folder of files, a hub dataset or sample:NAME.")],
    config: Annotated[str, typer.Option("-c", "--config", help="A preset's name, or a YAML file.")] = "tiny-cpu",
    base: Annotated[str | None, typer.Option("--base", help="Whose tokens count; the preset's if left out.")] = None,
    values: Annotated[list[str] | None, typer.Option("--set", help="Set one value, as in data.max_length=512.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write the report there too, as a page.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Check a dataset: duplicates, leakage, lengths, broken answers, balance, personal data, encoding.

    Exit code 2: `turnout run` would refuse it.
    """
    from data.check import check_file
    from data.checks.page import report_page
    from flows.presets.loading import load_preset
    from tasks.bases import resolve_base

    if html:
        _require_writable(html)
    settings = load_preset(config, values or [])
    data = settings.data.model_copy(update={"path": file})
    watcher = TerminalWatcher()
    watcher.begin("check")
    try:
        found = resolve_base(base or settings.base, watcher.update)
        report = check_file(data, found, lambda rows, share: watcher.update(f"{rows:,} rows", 100 * share, 100))
    finally:
        watcher.close()
    if html:
        write_atomically(html, report_page(report.data))
    answer(report.data, json, show)
    return 2 if report.data["refused"] else 0


def _require_writable(html: Path) -> None:
    """Raises BadInput before a long check whose page could not be written."""
    if html.is_dir():
        raise BadInput(f"--html {html} is a folder", f"Name a file, such as {html / 'report.html'}.")
    try:
        html.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=html.parent):
            pass
    except OSError as error:
        raise BadInput(
            f"--html {html} cannot be written: {error.strerror}", "Name a file in a folder that you may write to."
        ) from error


def show(report: dict[str, Any]) -> None:
    """The report for people."""
    from rich.table import Table
    from rich.text import Text

    title = f"{report['file']}: {report['rows']:,} rows ({report['format']})"
    table = Table(title=title, title_justify="left")
    for column in ("check", "says", "figure", "first rows"):
        table.add_column(column, overflow="fold")
    for item in report["checks"]:
        says = Text(item["severity"], _COLOURS[item["severity"]])
        shown = "\n".join(item["examples"]) if item["severity"] in ("warn", "refuse") else ""
        table.add_row(Text(item["name"]), says, Text(item["text"]), Text(shown))
    out.print(table)
    _show_figures(report)
    for note in report["notes"]:
        err.print(note)
    out.print("refused: `turnout run` would not train on it" if report["refused"] else "fit to train on")


def _show_figures(report: dict[str, Any]) -> None:
    from rich.table import Table

    if report["lengths"]:
        columns = list(report["lengths"]["row"])
        table = Table(title=f"tokens (max_length {report['max_length']})", title_justify="left")
        table.add_column("of")
        for column in columns:
            table.add_column(column, justify="right")
        for name in ("row", "answer"):
            table.add_row(name, *(f"{report['lengths'][name][column]:,}" for column in columns))
        out.print(table)
    for name in ("languages", "labels"):
        if report[name]:
            out.print(f"{name}: " + ", ".join(f"{key} {share:.1%}" for key, share in report[name].items()))
