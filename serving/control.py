"""Where a release takes effect: the reconcilers behind the gateways, or this home itself while none runs."""

import os
import re
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from serving.admin_calls import post
from serving.processes import is_alive
from serving.reconciling import Outcome, Reconciler
from serving.records import serving_engines
from serving.routes import Routes
from serving.succession import successor_waits
from serving.tokens import admin_token
from turnout.errors import BadInput, TurnoutError
from turnout.files import read_json
from turnout.paths import Home

GATEWAYS = "TURNOUT_GATEWAYS"
"""URLs, with commas between them, of the gateways whose traffic a release switches."""
_PREPARE_S = 900.0
_SWITCH_S = 10.0


@dataclass(frozen=True)
class Followed:
    """Who follows the event now, who does not yet, and why."""

    acknowledged: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Control(Protocol):
    """One place that serves."""

    @property
    def name(self) -> str: ...

    def prepare(self, name: str, number: int) -> list[str]:
        """Have the version ready wherever it is to be served; returns the engines that lacked it."""
        ...

    def switch(self, name: str, event: int) -> Followed:
        """Route the name as the log says from `event` on."""
        ...


@dataclass(frozen=True)
class Local:
    """This home, brought in line by the calling process."""

    reconciler: Reconciler
    name: str = "this home"

    def prepare(self, name: str, number: int) -> list[str]:
        if not serving_engines(self.reconciler.home):
            return []
        return self.reconciler.prepare(name, number)

    def switch(self, name: str, event: int) -> Followed:
        outcome = switch_to(self.reconciler, name, event)
        return followed(outcome, name, event)


@dataclass(frozen=True)
class Remote:
    """A reconciler, reached through its gateway or, in the same home, directly."""

    name: str
    url: str
    token: str

    def prepare(self, name: str, number: int) -> list[str]:
        answer = self._post("prepare", {"name": name, "version": number}, _PREPARE_S, ("loaded_on",))
        return list(answer["loaded_on"])

    def switch(self, name: str, event: int) -> Followed:
        try:
            told = ("acknowledged", "pending", "problems")
            answer = self._post("reconcile", {"name": name, "event": event}, _SWITCH_S, told)
        except TurnoutError as error:
            return Followed((), (self.name,), (error.message,))
        return Followed(tuple(answer["acknowledged"]), tuple(answer["pending"]), tuple(answer["problems"]))

    def _post(self, call: str, body: dict[str, Any], timeout_s: float, told: tuple[str, ...]) -> dict[str, Any]:
        return post(f"{self.url}/admin/{call}", body, self.token, timeout_s, told)


def controls(home: Home) -> list[Control]:
    """The gateways of TURNOUT_GATEWAYS; without it this home's reconciler, or this home itself."""
    urls = gateway_urls()
    if urls:
        token = admin_token(home)
        return [Remote(url, url, token) for url in urls]
    url = reconciler_url(home)
    if url:
        return [Remote("the reconciler of this home", url, admin_token(home))]
    return [Local(Reconciler(home))]


def gateway_urls() -> list[str]:
    """Those of TURNOUT_GATEWAYS, each once.

    Raises:
        BadInput: one of them is no URL of a gateway.
    """
    urls = [url.strip().rstrip("/") for url in os.environ.get(GATEWAYS, "").split(",") if url.strip()]
    for url in urls:
        if not _is_address(url):
            raise BadInput(f"{GATEWAYS} names {url!r:.100}, which is no gateway's URL", "write it as http://host:8080")
    return list(dict.fromkeys(urls))


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        sound = parts.port != 0  # reading it is what refuses a port that cannot be
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and not re.search(r"[\s?#]", url)
    return sound and plain and parts.scheme in ("http", "https") and bool(parts.hostname)


def reconciler_url(home: Home) -> str | None:
    """Where this home's reconciler listens; None while it does not run."""
    try:
        record = read_json(home.reconciler)
        return str(record["url"]) if is_alive(record["pid"], record["create_time"]) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def switch_to(reconciler: Reconciler, name: str, event: int) -> Outcome:
    """Route `name` as of `event`; where that does not work at once, load what is missing first, and where an engine
    waits to take over, let it."""
    outcome = reconciler.switch(name)
    done = _is_routed(outcome.routes, name, event) and not successor_waits(reconciler.home)
    return outcome if done else reconciler.run_pass()


def followed(outcome: Outcome, name: str, event: int) -> Followed:
    problems = (*outcome.problems.get(name, ()), *outcome.problems.get("", ()))
    if not _is_routed(outcome.routes, name, event):
        workers = (*outcome.pushed.acknowledged, *outcome.pushed.pending)
        return Followed((), workers or ("this home",), problems)
    return Followed(outcome.pushed.acknowledged, outcome.pushed.pending, problems)


def _is_routed(routes: Routes | None, name: str, event: int) -> bool:
    return routes is not None and name in routes.names and routes.names[name].event >= event
