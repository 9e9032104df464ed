"""Which served name a question goes to, and the answer to it."""

import os
from collections.abc import Callable
from typing import Any

from registry.names import check_name, parse_version, served_name
from serving.ask import ask
from serving.control import gateway_urls
from serving.gateway.records import list_workers
from serving.records import Engine, serving_engines
from serving.replicas import ready_on
from serving.routes import read_routes
from turnout.errors import EngineError, NotFound
from turnout.paths import Home

API_KEY = "TURNOUT_API_KEY"
"""The client key for the gateway, where it wants one."""


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
    """Ask the champion of `name`, a given version of it, or a base: through this home's gateway or the first of
    TURNOUT_GATEWAYS, or straight at the engine while there is none.

    Raises:
        NotFound: nothing is served under that name.
        EngineError: neither gateway nor engine is up, or what is up does not answer.
    """
    engines = serving_engines(home)
    gateways = [*(worker.url for worker in list_workers(home)), *gateway_urls()]
    if not engines and not gateways:
        raise EngineError(
            "no engine is up", "Start it with `turnout up`; before a first release, `turnout run` does it."
        )
    if gateways:
        model = name if version is None else served_name(check_name(name), parse_version(name, version))
        url, kind, key = gateways[0], "unknown", os.environ.get(API_KEY)
    else:
        engine, model = _direct(home, engines, name, version)
        url, kind, key = engine.url, engine.kind, None
    reply = ask(url, model, text, max_tokens=max_tokens, temperature=temperature, key=key, on_text=on_text)
    return {
        "text": reply.text,
        "name": name,
        "version": None if reply.model == name else parse_version(name, reply.model),  # a base has none
        "model": reply.model,
        "backend": reply.backend or kind,
        "ttft_ms": reply.ttft_ms,
        "tokens_per_second": reply.tokens_per_second,
        "tokens": reply.tokens,
    }


def _direct(home: Home, engines: list[Engine], name: str, version: str | None) -> tuple[Engine, str]:
    """The engine to ask, and the served name there."""
    for engine in engines:
        if name == engine.base.name and version is None:
            return engine, name
    check_name(name)
    routes = read_routes(home)
    on = routes.names.get(name) if routes else None
    if version is not None:
        number = parse_version(name, version)
    elif on is not None:
        number = on.champion
    else:
        listed = ", ".join([*sorted(routes.names if routes else ()), *(engine.base.name for engine in engines)])
        raise NotFound(f"{name} has no champion here", f"Served: {listed}. A first `turnout run` makes one.")
    routed = on.versions.get(str(number)) if on else None
    fitting = [engine for engine in engines if routed is None or engine.base.sha256 == routed.base_sha256]
    served = served_name(name, number)
    return min(fitting or engines, key=lambda engine: served not in ready_on(home, engine)), served
