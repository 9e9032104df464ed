"""How the results of `turnout bench` are shown to people."""

from typing import Any

from flows.output import out


def show_bench(result: dict[str, Any]) -> None:
    _show_table(result["rows"])
    for note in result["notes"]:
        out.print(note)
    for file in filter(None, result["files"].values()):
        out.print(f"Written: {file}")


def show_all(result: dict[str, Any]) -> None:
    for name, figures in result["figures"].items():
        rows = figures if isinstance(figures, list) else _as_rows(figures)
        out.print(f"{name}:", style="bold")
        _show_table(rows)
    for name, why in result["failures"].items():
        out.print(f"{name} failed: {why}", style="red")
    out.print(f"Report, after {result['seconds']:.0f} s: {result['report']}")


def show_ratios(result: dict[str, Any]) -> None:
    out.print(f"{result['bench']}: {result['b']} over {result['a']}")
    _show_table(result["ratios"])


def _as_rows(figures: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"": name, **(value if isinstance(value, dict) else {"value": value})} for name, value in figures.items()]


def _show_table(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from tasks.bench.tables import shown

    cells = shown(rows)
    head = list(dict.fromkeys(key for row in cells for key in row))
    table = Table(*head, box=None, header_style="bold")
    for row in cells:
        table.add_row(*("" if row.get(key) is None else str(row[key]) for key in head))
    out.print(table)
