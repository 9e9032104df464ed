"""`turnout status`, `turnout versions`, `turnout history`: what is, and how it came to be."""

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from flows.commands.options import Debug, Json
from flows.output import answer, out
from turnout.paths import home

Name = Annotated[str, typer.Argument(help="The adapter's name.")]


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: turnout status incidents")(status)
    app.command(epilog="Example: turnout versions incidents --json")(versions)
    app.command(epilog="Example: turnout history incidents")(history)


def status(
    name: Annotated[str | None, typer.Argument(help="One adapter; all of them if left out.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what should be served against what is."""
    from serving.status import compare

    answer(compare(home(), name), json, _show_status)


def versions(name: Name, json: Json = False, debug: Debug = False) -> None:
    """List a name's versions with their losses."""
    from registry.aliases import version_rows
    from registry.store import connect

    _refuse_where_nothing_is(name)
    answer({"name": name, "versions": version_rows(connect(home()), name)}, json, _show_versions)


def history(name: Name, json: Json = False, debug: Debug = False) -> None:
    """Show a name's release log: who switched to what, when and why."""
    from registry import releases
    from registry.store import connect
    from registry.versions import list_versions

    _refuse_where_nothing_is(name)
    client = connect(home())
    list_versions(client, name)  # an unknown name is an error here, not an empty log
    answer({"name": name, "events": releases.history(client, name)}, json, _show_history)


def _refuse_where_nothing_is(name: str) -> None:
    from registry.names import check_name, unknown_name
    from registry.reach import never_used

    if never_used(home()):
        raise unknown_name(check_name(name), ())


def _show_status(result: dict[str, Any]) -> None:
    for problem in result["problems"]:
        out.print(problem, style="yellow")
    if not result["adapters"] and not result["problems"]:
        out.print("No adapter is registered yet: turnout run")
    for adapter in result["adapters"]:
        table = Table(title=_headline(adapter), title_justify="left")
        for column in ("pool", "replica", "version", "loaded", "proof", "traffic"):
            table.add_column(column)
        for row in adapter["served"]:
            pool = f"{row['pool']}, {row['kind']}" if row["kind"] else row["pool"]
            cells = (pool, row["replica"], f"v{row['version']}", row["loaded"], row["proof"], row["traffic"])
            table.add_row(*(str(cell) for cell in cells))
        out.print(table)
        for problem in adapter["problems"]:
            out.print(f"  {problem}")


def _headline(adapter: dict[str, Any]) -> Text:
    roles = (f"{role} v{adapter[role]}" for role in ("champion", "previous", "candidate") if adapter[role] is not None)
    state = Text("in sync", "green") if adapter["in_sync"] else Text("not in sync", "red")
    return Text(f"{adapter['name']}: {', '.join(roles) or 'no champion yet'}; ").append_text(state)


def _show_versions(result: dict[str, Any]) -> None:
    table = Table(title=result["name"], title_justify="left")
    for column in ("version", "is", "label", "base loss", "eval loss", "served loss", "created", "adapter"):
        table.add_column(column)
    for row in result["versions"]:
        if row.get("problem"):
            out.print(f"v{row['version']}: {row['problem']}", style="yellow")
            continue
        state = ", ".join(row["aliases"]) or ("refused" if row["refused"] else "")
        losses = (_nats(row[key]) for key in ("base_eval_loss", "eval_loss", "served_eval_loss"))
        label, created, digest = row["label"] or "", row["created"], row["adapter_sha256"][:12]
        table.add_row(f"v{row['version']}", state, label, *losses, created, digest)
    out.print(table)


def _nats(loss: float | None) -> str:
    return "" if loss is None else f"{loss:.4f}"


def _show_history(result: dict[str, Any]) -> None:
    table = Table(title=f"{result['name']}: release log", title_justify="left")
    for column in ("event", "kind", "champion", "took effect", "when", "who", "why"):
        table.add_column(column)
    for event in result["events"]:
        champion = "" if event["champion"] is None else f"v{event['champion']}"
        effect = "yes" if event["effective"] else "no: another came first"
        arms = {**event.get("weights", {}), **event.get("shadow", {})}
        kind = " ".join([event["kind"], *(f"v{version} {percent:g} %" for version, percent in arms.items())])
        table.add_row(str(event["number"]), kind, champion, effect, event["timestamp"], event["actor"], event["reason"])
    out.print(table)
