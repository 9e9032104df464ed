"""`turnout ask`: one question to an adapter."""

from typing import Annotated, Any

import typer

from flows.commands.options import Debug, Json
from flows.output import answer, err
from turnout.paths import home


def add_to(app: typer.Typer) -> None:
    app.command(epilog='Example: turnout ask incidents "Analyse this error log: OOMKilled, exit code 137"')(ask)


def ask(
    name: Annotated[str, typer.Argument(help="The adapter's name, or the base's as `turnout up` prints it.")],
    text: Annotated[str, typer.Argument(help="The question.")],
    version: Annotated[
        str | None, typer.Option("--version", help="A version, as 3 or v3; the champion if left out.")
    ] = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="The longest answer, in tokens.")] = 200,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="0 is greedy: the same answer every time.")] = 0.0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Ask an adapter something and show its answer as it comes."""
    from serving.asking import ask_version

    def print_piece(piece: str) -> None:
        typer.echo(piece, nl=False)

    result = ask_version(
        home(),
        name,
        text,
        version,
        max_tokens=max_tokens,
        temperature=temperature,
        on_text=None if json else print_piece,
    )
    answer(result, json, _show)


def _show(result: dict[str, Any]) -> None:
    typer.echo()
    speed = f"first token {result['ttft_ms']:.0f} ms, {result['tokens_per_second']:.1f} tokens/s"
    err.print(f"{result['model']}, {speed}", style="dim")
