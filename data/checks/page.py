"""The report as one HTML page with plots."""

from typing import Any

from turnout.pages import figure, mark, page, plot_style, section, table, text

_CLASSES = {"refuse": "bad", "warn": "warn", "ok": "good", "off": "subtitle"}


def report_page(report: dict[str, Any]) -> str:
    """A self-contained page of what `data.checks.report.Report.data` holds."""
    outcome = "refused" if report["refused"] else "fit to train on"
    facts = f"{report['rows']:,} rows, {report['format']}; {outcome}"
    checks = [
        {
            "check": item["name"],
            "says": mark(item["severity"], _CLASSES[item["severity"]]),
            "figure": item["text"],
            "first rows": "\n".join(item["examples"]),
        }
        for item in report["checks"]
    ]
    parts = [section("Checks", table(checks))]
    if report["lengths"]:
        parts.append(section("Lengths in tokens", *_lengths(report)))
    parts += [_shares(title, report[key]) for title, key in _BALANCES.items() if report[key]]
    if report["notes"]:
        parts.append(section("Notes", *(text(note) for note in report["notes"])))
    return page(f"Data check: {report['file']}", *parts, subtitle=facts)


_BALANCES = {"Languages (sampled)": "languages", "Labels": "labels"}


def _lengths(report: dict[str, Any]) -> list[Any]:
    from matplotlib.figure import Figure

    lengths, limit = report["lengths"], report["max_length"]
    edges, rows = lengths["histogram"]["edges"], lengths["histogram"]["rows"]
    with plot_style():
        drawn = Figure()
        axes = drawn.subplots()
        axes.stairs(rows, edges, fill=True)
        if edges[-1] >= limit / 2:
            axes.axvline(limit, color="tab:red", linestyle="--", label=f"max_length {limit}")
            axes.legend()
        axes.set_xlabel("tokens of prompt and answer")
        axes.set_ylabel("rows")
        plot = figure(drawn, f"Histogram of the rows' lengths: the longest has {lengths['row']['max']} tokens")
    return [plot, table([{"of": name, **lengths[name]} for name in ("row", "answer")])]


def _shares(title: str, shares: dict[str, float]) -> Any:
    from matplotlib.figure import Figure

    with plot_style():
        drawn = Figure(figsize=(7.5, 0.6 + 0.25 * len(shares)))
        axes = drawn.subplots()
        # The names stand in the table: fonts for every script are rarely there.
        axes.barh([str(number) for number in range(1, len(shares) + 1)], list(shares.values()))
        axes.invert_yaxis()
        axes.set_xlabel("share of the rows")
        plot = figure(drawn, title)
    rows = [
        {"number": str(n), "is": name, "share": f"{share:.1%}"} for n, (name, share) in enumerate(shares.items(), 1)
    ]
    return section(title, plot, table(rows))
