"""`turnout bench`: measures engines."""

import typer


def add_to(app: typer.Typer) -> None:
    del app
