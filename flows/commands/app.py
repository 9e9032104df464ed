"""The `turnout` command with all its subcommands."""

import typer

from flows.commands import ask, bench, capacity, data, inspect, keys, release, run, stack
from turnout import __version__

app = typer.Typer(
    name="turnout",
    help="The railway switch for LoRA adapters: train, prove, register and serve them, and switch between versions.",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (run, ask, inspect, stack, release, keys, data, bench, capacity):
    module.add_to(app)


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context, show: bool = typer.Option(False, "--version", help="Show Turnout's version.")
) -> None:
    if show:
        typer.echo(__version__)
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)
