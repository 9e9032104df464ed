"""`turnout capacity`: memory and cost."""

import typer


def add_to(app: typer.Typer) -> None:
    del app
