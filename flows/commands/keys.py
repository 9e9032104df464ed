"""`turnout keys`: the keys that clients call the gateway with."""

from typing import Annotated, Any

import typer
from rich.table import Table

from flows.commands.options import Debug, Json
from flows.output import answer, err, out
from turnout.paths import home

ADD_EXAMPLES = """
Examples:

  turnout keys add team-a --names incidents,support

  turnout keys add operators --names "*"
"""

KeyId = Annotated[str, typer.Argument(metavar="ID", help="The key's id, which metrics show: a team's or an app's.")]


def add_to(app: typer.Typer) -> None:
    keys = typer.Typer(help="Add, list and remove the clients' keys; with none, the gateway is open to all.")
    keys.command(epilog=ADD_EXAMPLES)(add)
    keys.command("list", epilog="Example: turnout keys list --json")(list_all)
    keys.command(epilog="Example: turnout keys remove team-a")(remove)
    app.add_typer(keys, name="keys", no_args_is_help=True)


def add(
    key_id: KeyId,
    names: Annotated[str, typer.Option(help='What it may call, as in incidents,support; "*" for all names.')],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Make a key and show it, once: only its hash is kept."""
    from serving.keys import add_key

    callable_names = [name.strip() for name in names.split(",")]
    text = add_key(home(), key_id, callable_names)
    answer({"id": key_id, "names": callable_names, "key": text}, json, _show_added)


def list_all(json: Json = False, debug: Debug = False) -> None:
    """List the keys' ids and the names that they may call."""
    from serving.keys import list_keys

    rows = [{"id": key.id, "names": list(key.names), "created": key.created} for key in list_keys(home())]
    answer({"keys": rows}, json, _show_all)


def remove(key_id: KeyId, json: Json = False, debug: Debug = False) -> None:
    """Take a key away; the gateway refuses it from the next second on."""
    from serving.keys import remove_key

    answer({"removed": key_id, "left": remove_key(home(), key_id)}, json, _show_removed)


def _show_added(result: dict[str, Any]) -> None:
    err.print(f"The key {result['id']} may call {', '.join(result['names'])}. It is shown this once:")
    out.print(result["key"])


def _show_all(result: dict[str, Any]) -> None:
    if not result["keys"]:
        out.print("There is no key: the gateway is open to all who reach it.")
        return
    table = Table()
    for column in ("id", "may call", "created"):
        table.add_column(column)
    for row in result["keys"]:
        table.add_row(row["id"], ", ".join(row["names"]), row["created"])
    out.print(table)


def _show_removed(result: dict[str, Any]) -> None:
    out.print(f"Removed: {result['removed']}")
    if not result["left"]:
        err.print("No key is left: the gateway is open to all who reach it.", style="yellow")
