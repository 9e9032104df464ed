"""Rollback without the registry: the gateways switch now, the release log learns of it later."""

from dataclasses import dataclass
from typing import Any

from serving.admin_calls import post
from serving.control import gateway_urls
from serving.gateways import push
from serving.journal import write_override
from serving.planning import overridden, servable
from serving.routes import NameRoutes, Routes, read_routes, update_routes
from serving.tokens import admin_token
from turnout.errors import NotFound, Refused, RegistryConflict, TurnoutError
from turnout.paths import Home

_TOLD = ("before", "to", "generation", "pending", "warnings")


@dataclass(frozen=True)
class Overridden:
    """Who was switched from `before` to `to`; `pending` are the workers or gateways that did not follow."""

    before: int
    to: int
    generation: int
    pending: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def override(
    home: Home, name: str, *, to: int | None, expect: int | None, actor: str | None, reason: str
) -> Overridden:
    """Switch `name` back at every gateway of TURNOUT_GATEWAYS, or in this home.

    Raises:
        NotFound: nothing is routed under that name, or `to` is not loaded.
        Refused: there is no earlier champion.
        EngineUnreachable: no gateway answers. Where any switches, those that do not are `pending`.
    """
    urls = gateway_urls()
    if not urls:
        return override_here(home, name, to=to, expect=expect, actor=actor, reason=reason)
    body = {"name": name, "to": to, "expect": expect, "actor": actor, "reason": reason}
    answers: list[dict[str, Any]] = []
    lost: dict[str, TurnoutError] = {}
    token = admin_token(home)
    for url in urls:
        try:
            answers.append(post(f"{url}/admin/override", body, token, 10.0, _TOLD))
        except TurnoutError as error:  # whatever it is, the next gateway may switch
            lost[url] = error
    if not answers:
        raise next(iter(lost.values()))
    pending = (*(each for answer in answers for each in answer["pending"]), *lost)
    warnings = (*answers[0]["warnings"], *(error.message for error in lost.values()))
    return Overridden(answers[0]["before"], answers[0]["to"], answers[0]["generation"], pending, warnings)


def override_here(
    home: Home, name: str, *, to: int | None, expect: int | None, actor: str | None, reason: str
) -> Overridden:
    """Switch `name` back in the routes of this home, journal it, and tell its gateway workers."""
    routes = read_routes(home)
    on = routes.names.get(name) if routes else None
    if routes is None or on is None:
        known = ", ".join(sorted(routes.names)) if routes else "none"
        raise NotFound(f"{name} is not routed here; routed: {known or 'none'}", "check the name and TURNOUT_HOME")
    if expect is not None and on.champion != expect:
        raise RegistryConflict(f"{name} is at v{on.champion} here, not at v{expect}; nothing was changed")
    target = _target(name, on, routes, to)
    entry = write_override(home, name, on.champion, target, actor=actor, reason=reason)

    def change(before: Routes | None) -> Routes | None:
        if before is None or name not in before.names:
            return before
        new = overridden(before.names[name], entry)
        return Routes(before.generation, before.bases, {**before.names, name: new}, before.replicas)

    new = update_routes(home, change)
    assert new is not None
    pushed = push(home, new)
    warnings = ("the registry was not asked; the release log gets this event when it answers",)
    return Overridden(on.champion, target, new.generation, pushed.pending, warnings)


def _target(name: str, on: NameRoutes, routes: Routes, to: int | None) -> int:
    number = to if to is not None else on.previous
    if number is None:
        raise Refused(f"no earlier champion of {name} is known here", "name a loaded version: --to VERSION")
    version = on.versions.get(str(number))
    if version is None or not servable(routes.replicas, name, number, version):
        ready = ", ".join(f"v{n}" for n, v in on.versions.items() if servable(routes.replicas, name, int(n), v))
        raise NotFound(f"v{number} of {name} is not loaded on every replica; loaded: {ready or 'none'}", "choose one")
    return number
