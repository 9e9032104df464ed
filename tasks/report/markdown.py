"""A run in short, in Markdown, which is what Prefect's artifacts are; the HTML page says the rest."""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.report.outcome import state


def markdown(result: Mapping[str, Any], losses: Sequence[Mapping[str, Any]]) -> str:
    """The outcome, where its report is, the gate's rules, the losses and the warnings."""
    before = result["champion_before"]
    rules = [
        {
            "rule": rule["name"],
            "verdict": "passed" if rule["passed"] else "**refused**",
            "in words": rule["text"],
        }
        for rule in result["gate"]["rules"]
    ]
    lines = [
        f"# {result['name']}-v{result['version']}: {state(result)}",
        "",
        f"Champion before: {'there was none' if before is None else f'v{before}'}. {_where(result)}",
        "",
        "## Gate",
        "",
        *_table(rules),
        "",
        "## Losses, nats a token",
        "",
        *_table(losses),
        "",
    ]
    warnings = [f"- {_line(warning)}" for warning in result["warnings"]]
    return "\n".join([*lines, *(["## Warnings", "", *warnings, ""] if warnings else [])])


def _where(result: Mapping[str, Any]) -> str:
    if result["report_url"]:
        return f"[The report]({result['report_url']}), also `{result['report']}`."
    return f"The report: `{result['report']}`." if result["report"] else ""


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    head = list(rows[0])
    body = ["| " + " | ".join("" if row[key] is None else _line(str(row[key])) for key in head) + " |" for row in rows]
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *body]


def _line(text: str) -> str:
    """`text` on one line of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")
