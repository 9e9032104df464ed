"""`turnout data`: checks of a dataset, and its versions."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from flows.commands.data_check import EXAMPLES as CHECK_EXAMPLES
from flows.commands.data_check import check
from flows.commands.options import Debug, Json
from flows.output import answer, err, out
from turnout.paths import home

DIFF_EXAMPLES = """
Examples:

  turnout data diff 3f2a 9c01                  two dataset versions

  turnout data diff incidents-v1 rows.jsonl    what an adapter was trained on, and a file
"""
_WIDTH = 100
"""Characters of a prompt or an answer that people are shown."""

Side = Annotated[str, typer.Argument(help="A dataset version, an adapter version such as incidents-v1, or a file.")]


def add_to(app: typer.Typer) -> None:
    data = typer.Typer(help="Check a dataset, list its versions, compare them and get them back.")
    data.command(epilog=CHECK_EXAMPLES)(check)
    data.command("list", epilog="Example: turnout data list --json")(list_all)
    data.command(epilog=DIFF_EXAMPLES)(diff)
    data.command(epilog="Example: turnout data checkout 3f2a rows.jsonl")(checkout)
    app.add_typer(data, name="data", no_args_is_help=True)


def list_all(json: Json = False, debug: Debug = False) -> None:
    """List the dataset versions, and which adapter versions were trained on each."""
    from tasks.dataset_versions import list_dataset_versions

    versions, problems = list_dataset_versions(home())
    answer({"datasets": [version.to_row() for version in versions], "problems": problems}, json, _show_all)


def diff(a: Side, b: Side, json: Json = False, debug: Debug = False) -> None:
    """Show which rows were added, removed, or changed (the same prompt with another answer) from A to B."""
    from data.diff import diff as compare
    from tasks.dataset_versions import source_of

    with err.status("Comparing"):
        (before, old), (after, new) = source_of(home(), a), source_of(home(), b)
        found = compare(before, after)
    answer({"a": {"name": a, "sha256": old}, "b": {"name": b, "sha256": new}, **asdict(found)}, json, _show_diff)


def checkout(
    version: Annotated[str, typer.Argument(help="A dataset version, or an adapter version that was trained on it.")],
    to: Annotated[Path, typer.Argument(help="Where to write the file or folder; other content is never overwritten.")],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write the file or folder that a dataset version was made of, bit for bit."""
    from data.versions import check_out
    from tasks.dataset_versions import fetch_source, find_dataset_version

    with err.status("Checking out"):
        found = find_dataset_version(home(), version)
        source, sha256 = fetch_source(home(), found)
        path = check_out(source, sha256, to)
    result = {"sha256": found.sha256, "source_sha256": sha256, "path": str(path)}
    answer(result, json, lambda done: out.print(f"{done['sha256'][:12]} → {done['path']}"))


def _show_all(result: dict[str, Any]) -> None:
    for problem in result["problems"]:
        err.print(problem, style="yellow")
    if not result["datasets"]:
        out.print("No dataset was prepared yet: turnout run")
        return
    table = Table()
    for column in ("version", "source", "rows", "training", "validation", "created", "trained on it"):
        table.add_column(column, justify="right" if column in ("rows", "training", "validation") else "left")
    for row in result["datasets"]:
        counts = (str(row[key]) for key in ("rows", "train_rows", "validation_rows"))
        table.add_row(row["version"], row["source"], *counts, row["created"], ", ".join(row["trained"]))
    out.print(table)


def _show_diff(result: dict[str, Any]) -> None:
    counts = (f"{result[kind]} {kind}" for kind in ("added", "removed", "changed", "unchanged"))
    out.print(f"{result['a']['name']} → {result['b']['name']}: {', '.join(counts)}")
    versions = {result["a"]["sha256"], result["b"]["sha256"]}
    if len(versions) == 2 and None not in versions and not any(result["examples"].values()):
        out.print("The rows are the same; their order, their split, or data.max_length is not.")
    for kind, examples in result["examples"].items():
        for example in examples:
            out.print(f"{kind:<8} {_short(example['prompt'])}", style="bold")
            if example["before"] is not None:
                out.print(f"       − {_short(example['before'])}", style="red")
            if example["after"] is not None:
                out.print(f"       + {_short(example['after'])}", style="green")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
