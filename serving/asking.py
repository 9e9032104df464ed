"""Which served name a question goes to, and the answer to it."""

from collections.abc import Callable
from typing import Any

from registry.names import check_name, parse_version, served_name
from serving.ask import ask
from serving.records import Engine, find_engine
from serving.routes import read_routes
from turnout.errors import EngineError, NotFound
from turnout.paths import Home


def ask_version(
    home: Home,
    name: str,
    text: str,
    version: str | None = None,
    *,
    max_tokens: int = 200,
    temperature: float = 0.0,
    on_text: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Ask the champion of `name`, a given version of it, or the base, straight at the engine.

    Raises:
        NotFound: nothing is served under that name.
        EngineError: no engine is up, or it does not answer.
    """
    engine = find_engine(home)
    if engine is None:
        raise EngineError(
            "no engine is up", "Start it with `turnout up`; before a first release, `turnout run` does it."
        )
    model, number = _model(home, engine, name, version)
    reply = ask(engine.url, model, text, max_tokens=max_tokens, temperature=temperature, on_text=on_text)
    return {
        "text": reply.text,
        "name": name,
        "version": number,
        "model": reply.model,
        "backend": engine.kind,
        "ttft_ms": reply.ttft_ms,
        "tokens_per_second": reply.tokens_per_second,
        "tokens": reply.tokens,
    }


def _model(home: Home, engine: Engine, name: str, version: str | None) -> tuple[str, int | None]:
    """The served name, and the version's number; the base has none."""
    if name == engine.base.name and version is None:
        return name, None
    check_name(name)
    if version is not None:
        number = parse_version(name, version)
        return served_name(name, number), number
    routes = read_routes(home)
    known = sorted(routes.names) if routes else []
    if name not in known:
        listed = ", ".join([*known, engine.base.name])
        raise NotFound(f"{name} has no champion here", f"Served: {listed}. A first `turnout run` makes one.")
    assert routes is not None
    number = routes.names[name].champion
    return served_name(name, number), number
