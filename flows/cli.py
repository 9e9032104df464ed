"""The `turnout` command: parses, calls, answers, and turns every failure into a message and an exit code."""

import errno
import io
import sys
import traceback

from turnout.errors import BadInput, ResourceShort, TurnoutError

INTERRUPTED = 130


def main() -> None:
    """Run one command and exit: 0 done, 1 failed, 2 bad usage or input, 3 refused by the gate, 130 interrupted."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what a terminal cannot show must not end the command
    failure: TurnoutError | None
    try:
        code, failure = _run()
    except KeyboardInterrupt:
        code, failure = INTERRUPTED, None
    if code == INTERRUPTED:
        failure = TurnoutError("Interrupted.", "Run the same command again: it goes on where it stopped.")
    if failure is not None:
        _tell(failure)
    sys.exit(code)


def _tell(failure: TurnoutError) -> None:
    try:
        from flows.output import fail

        fail(failure, as_json="--json" in sys.argv)
    except Exception:  # whatever keeps it from being told well
        sys.stderr.write(f"Error: {failure}\n")


def _run() -> tuple[int, TurnoutError | None]:
    """The exit code, and what failed. The commands are imported here, where Ctrl-C is answered already."""
    import typer

    from flows.commands.app import app

    failure: TurnoutError
    try:
        return app(standalone_mode=False) or 0, None
    except typer.Abort:
        return INTERRUPTED, None
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        hint = f"See `{context.command_path} --help`." if context else "See `turnout --help`."
        if not error.format_message():  # a group without a command, whose help was shown instead
            return BadInput.exit_code, None
        failure = BadInput(error.format_message(), hint)
    except Exception as error:
        failure = error if isinstance(error, TurnoutError) else _unexpected(error)
        if "--debug" in sys.argv:
            traceback.print_exc()
    return failure.exit_code, failure


def _unexpected(error: Exception) -> TurnoutError:
    if not isinstance(error, OSError):
        return TurnoutError(f"{type(error).__name__}: {error}", "This is a bug; --debug shows where it happened.")
    if error.errno == errno.ENOSPC:
        disk = f"the disk that holds {error.filename}" if error.filename else "a disk"
        return ResourceShort(
            f"No space left on {disk}",
            "Free some, and run again; TURNOUT_HOME, TURNOUT_CACHE and TMPDIR say where files are.",
        )
    if isinstance(error, PermissionError):
        return ResourceShort(f"Not allowed to write or read {error.filename}", "Change its owner or set TURNOUT_HOME.")
    what = (
        f"{error.filename} cannot be used: {error.strerror}" if error.filename else f"{type(error).__name__}: {error}"
    )
    return ResourceShort(
        what,
        "Check that path or connection; TURNOUT_HOME and TURNOUT_CACHE say where files are, --debug where it failed.",
    )
