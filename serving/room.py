"""Keeps the number of adapters that an engine has loaded within its limit."""

import asyncio

from serving.client import EngineClient
from serving.records import Engine
from serving.routes import read_routes
from turnout.errors import EngineError
from turnout.paths import Home


def free_room(home: Home, engine: Engine, served_name: str) -> None:
    """Unload versions that no route names, until `served_name` fits beside the rest.

    Raises:
        EngineError: the routed versions alone fill the engine.
    """
    routes = read_routes(home)
    routed = {f"{name}-v{number}" for name, on in routes.names.items() for number in on.versions} if routes else set()
    asyncio.run(_free_room(engine, served_name, routed))


async def _free_room(engine: Engine, served_name: str, routed: set[str]) -> None:
    async with EngineClient(engine.url) as client:
        loaded = set(await client.models()) - {engine.base.name}
        spare = sorted(loaded - routed - {served_name})
        surplus = len(loaded | {served_name}) - engine.max_cpu_loras
        if surplus > len(spare):
            raise EngineError(
                f"the engine at {engine.url} holds {engine.max_cpu_loras} adapters, and {', '.join(sorted(routed))} "
                f"have traffic, so {served_name} does not fit",
                "Raise serving.max_cpu_loras, then start the engine again: turnout down, turnout up.",
            )
        for name in spare[: max(surplus, 0)]:
            await client.unload_adapter(name)
