"""Options that every command takes."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object on standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")]
