"""The plots of benches; each bench chooses among them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tasks.bench.result import Result, Row
from tasks.bench.tables import label
from turnout.pages import plot_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def bars(rows: Sequence[Row], columns: Sequence[str]) -> "Figure | None":
    """A panel for each of `columns` that some row has, a bar for each configuration; None where there is nothing."""
    from matplotlib.figure import Figure

    columns = [column for column in columns if any(_number(row.get(column)) for row in rows)]
    if not columns:
        return None
    names = [_name(row) for row in rows]
    with plot_style():
        fig = Figure(figsize=(7.5, max(2.0, 0.4 * len(rows) + 1.2)))
        panels = fig.subplots(1, len(columns), sharey=True, squeeze=False)[0]
        for axes, column in zip(panels, columns, strict=True):
            values = [row[column] if _number(row.get(column)) else 0 for row in rows]
            drawn = axes.barh(range(len(rows)), values, color="tab:blue")
            axes.bar_label(drawn, labels=[f"{value:.3g}" if value else "" for value in values], padding=2, fontsize=8)
            axes.set_yticks(range(len(rows)), names)
            axes.margins(x=0.2)
            axes.set_xlabel(label(column))
        panels[0].invert_yaxis()
    return fig


def by_users(rows: Sequence[Row], columns: Sequence[str]) -> "Figure | None":
    """A panel for each of `columns` over the number of users, a line for each configuration."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    rows = [row for row in rows if "users" in row]
    if not rows:
        return None
    users = sorted({row["users"] for row in rows})
    with plot_style():
        fig = Figure(figsize=(7.5, 3.4))
        panels = fig.subplots(1, len(columns), squeeze=False)[0]
        for axes, column in zip(panels, columns, strict=True):
            for name in dict.fromkeys(row["configuration"] for row in rows):
                own = sorted((row["users"], row[column]) for row in rows if row["configuration"] == name)
                axes.plot(*zip(*own, strict=True), "o-", label=name if axes is panels[0] else None)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xticks(users, [str(each) for each in users])
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axes.minorticks_off()
            axes.set_xlabel("users")
            axes.set_ylabel(label(column))
        fig.legend(loc="outside upper left", ncols=3)
    return fig


def over_time(series: dict[str, list[dict[str, Any]]], columns: Sequence[str]) -> "Figure | None":
    """A panel for each of `columns` over seconds, a line for each of `series`."""
    from matplotlib.figure import Figure

    if not any(series.values()):
        return None
    with plot_style():
        fig = Figure(figsize=(7.5, 1.7 * len(columns) + 0.6))
        panels = fig.subplots(len(columns), 1, sharex=True, squeeze=False)[:, 0]
        for axes, column in zip(panels, columns, strict=True):
            for name, samples in series.items():
                points = [(sample["seconds"], sample[column]) for sample in samples if column in sample]
                if points:
                    axes.plot(*zip(*points, strict=True), label=name if axes is panels[0] else None)
            axes.set_ylabel(label(column))
            axes.set_ylim(bottom=0)
        panels[-1].set_xlabel("seconds")
        fig.legend(loc="outside upper left", ncols=3)
    return fig


def first_figures(result: Result) -> "Figure | None":
    """Bars of the first three columns of numbers, for a bench that says nothing else."""
    named = dict.fromkeys(key for row in result.rows for key, value in row.items() if _number(value) and key != "users")
    return bars(result.rows, list(named)[:3])


def _name(row: Row) -> str:
    name = str(row.get("configuration", ""))
    return f"{name}, {row['users']} users" if "users" in row else name


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
