"""Where a release takes effect: the reconcilers behind the gateways, or this home itself while none runs."""

import http.client
import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, Protocol

from serving.processes import is_alive
from serving.reconciling import Outcome, Reconciler
from serving.records import serving_engines
from serving.routes import Routes
from serving.tokens import admin_token
from turnout.errors import (
    ArtifactDamaged,
    BadInput,
    EngineError,
    EngineNotReady,
    EngineUnreachable,
    LoadRefused,
    NotFound,
    ProofFailed,
    Refused,
    RegistryConflict,
    RegistryUnavailable,
    ResourceShort,
    TurnoutError,
)
from turnout.files import read_json
from turnout.paths import Home

GATEWAYS = "TURNOUT_GATEWAYS"
"""URLs, with commas between them, of the gateways whose traffic a release switches."""
_PREPARE_S = 900.0
_SWITCH_S = 10.0
_KINDS: dict[str, type[TurnoutError]] = {
    each.kind: each
    for each in (
        *(BadInput, NotFound, Refused, RegistryConflict, RegistryUnavailable, ArtifactDamaged, ResourceShort),
        *(EngineError, EngineNotReady, EngineUnreachable, LoadRefused, ProofFailed),
    )
}


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
        lacking: list[str] = self._post("prepare", {"name": name, "version": number}, _PREPARE_S)["loaded_on"]
        return lacking

    def switch(self, name: str, event: int) -> Followed:
        try:
            answer = self._post("reconcile", {"name": name, "event": event}, _SWITCH_S)
        except TurnoutError as error:
            return Followed((), (self.name,), (error.message,))
        return Followed(tuple(answer["acknowledged"]), tuple(answer["pending"]), tuple(answer["problems"]))

    def _post(self, call: str, body: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        return post(f"{self.url}/admin/{call}", body, self.token, timeout_s)


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
    return [url.strip().rstrip("/") for url in os.environ.get(GATEWAYS, "").split(",") if url.strip()]


def reconciler_url(home: Home) -> str | None:
    """Where this home's reconciler listens; None while it does not run."""
    try:
        record = read_json(home.reconciler)
        return str(record["url"]) if is_alive(record["pid"], record["create_time"]) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def switch_to(reconciler: Reconciler, name: str, event: int) -> Outcome:
    """Route `name` as of `event`; where that does not work at once, load what is missing first."""
    outcome = reconciler.switch(name)
    return outcome if _is_routed(outcome.routes, name, event) else reconciler.run_pass()


def followed(outcome: Outcome, name: str, event: int) -> Followed:
    problems = (*outcome.problems.get(name, ()), *outcome.problems.get("", ()))
    if not _is_routed(outcome.routes, name, event):
        workers = (*outcome.pushed.acknowledged, *outcome.pushed.pending)
        return Followed((), workers or ("this home",), problems)
    return Followed(outcome.pushed.acknowledged, outcome.pushed.pending, problems)


def post(url: str, body: dict[str, Any], token: str, timeout_s: float) -> dict[str, Any]:
    """POST to an admin call and return its JSON answer.

    Raises:
        EngineUnreachable: nothing answers there.
        TurnoutError: what the other side says went wrong, of the same kind as there.
    """
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return _open(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout_s)


def get(url: str, token: str, timeout_s: float) -> dict[str, Any]:
    """As `post`, for calls that change nothing."""
    return _open(urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"}), timeout_s)


def _open(request: urllib.request.Request, timeout_s: float) -> dict[str, Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            value: dict[str, Any] = json.load(answer)
            return value
    except urllib.error.HTTPError as error:
        raise _error_of(request.full_url, error) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise EngineUnreachable(f"{request.full_url} does not answer: {error}", "Start it: turnout up") from error


def _error_of(url: str, error: urllib.error.HTTPError) -> TurnoutError:
    try:
        told = json.load(error)["error"]
        kind = _KINDS.get(told.get("kind") or "", EngineUnreachable if error.code in (502, 503) else TurnoutError)
        return kind(str(told["message"]), str(told.get("next_step") or ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return EngineUnreachable(f"{url} answers HTTP {error.code}", "See the gateway's log.")


def _is_routed(routes: Routes | None, name: str, event: int) -> bool:
    return routes is not None and name in routes.names and routes.names[name].event >= event
