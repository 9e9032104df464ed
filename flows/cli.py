"""The `turnout` command: parses, calls, answers, and turns every failure into a message and an exit code."""

import errno
import sys
import traceback

import typer

from flows.commands import ask, inspect, run, stack
from flows.output import fail
from turnout import __version__
from turnout.errors import BadInput, ResourceShort, TurnoutError

app = typer.Typer(
    name="turnout",
    help="The railway switch for LoRA adapters: train, prove, register and serve them, and switch between versions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (run, ask, inspect, stack):
    module.add_to(app)


@app.callback(invoke_without_command=True)
def version(show: bool = typer.Option(False, "--version", help="Show Turnout's version.")) -> None:
    if show:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run one command and exit: 0 done, 1 failed, 2 bad usage or input, 3 refused by the gate."""
    as_json, debug = "--json" in sys.argv, "--debug" in sys.argv
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        hint = f"See `{context.command_path} --help`." if context else "See `turnout --help`."
        failure: TurnoutError = BadInput(getattr(error, "message", str(error)), hint)
    except TurnoutError as error:
        failure = error
        if debug:
            traceback.print_exc()
    except (typer.Abort, KeyboardInterrupt):
        fail(TurnoutError("Interrupted.", "Run the same command again: it goes on where it stopped."), as_json)
        sys.exit(130)
    except Exception as error:
        failure = _unexpected(error)
        if debug:
            traceback.print_exc()
    fail(failure, as_json)
    sys.exit(failure.exit_code)


def _unexpected(error: Exception) -> TurnoutError:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return ResourceShort(f"No space left on the disk that holds {error.filename}", "Free some, and run again.")
    if isinstance(error, PermissionError):
        return ResourceShort(f"Not allowed to write or read {error.filename}", "Change its owner or set TURNOUT_HOME.")
    return TurnoutError(f"{type(error).__name__}: {error}", "This is a bug; --debug shows where it happened.")
