"""Calls to the admin surface of a gateway or a reconciler, and what their errors mean here."""

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

from serving.tokens import ADMIN_TOKEN
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

_WHERE_TO = f"check TURNOUT_GATEWAYS, and that {ADMIN_TOKEN} is the token in admin-token of the gateway's TURNOUT_HOME"
_KINDS: dict[str, type[TurnoutError]] = {
    each.kind: each
    for each in (
        *(BadInput, NotFound, Refused, RegistryConflict, RegistryUnavailable, ArtifactDamaged, ResourceShort),
        *(EngineError, EngineNotReady, EngineUnreachable, LoadRefused, ProofFailed),
    )
}


def post(url: str, body: dict[str, Any], token: str, timeout_s: float, told: tuple[str, ...]) -> dict[str, Any]:
    """POST to an admin call and return its JSON answer, an object that holds the keys `told`.

    Raises:
        EngineUnreachable: nothing answers there, or something else than Turnout does.
        TurnoutError: what the other side says went wrong, of the same kind as there.
    """
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return _open(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout_s, told)


def get(url: str, token: str, timeout_s: float, told: tuple[str, ...] = ()) -> dict[str, Any]:
    """As `post`, for calls that change nothing."""
    return _open(urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"}), timeout_s, told)


def _open(request: urllib.request.Request, timeout_s: float, told: tuple[str, ...]) -> dict[str, Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            value = json.load(answer)
    except urllib.error.HTTPError as error:
        raise _error_of(request.full_url, error) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise EngineUnreachable(f"{request.full_url} does not answer: {error}", "Start it: turnout up") from error
    if not isinstance(value, dict) or not value.keys() >= set(told):
        raise EngineUnreachable(f"{request.full_url} is no gateway's: something else answers there", _WHERE_TO)
    return value


def _error_of(url: str, error: urllib.error.HTTPError) -> TurnoutError:
    try:
        told = json.load(error)["error"]
        kind = _KINDS.get(told.get("kind") or "", EngineUnreachable if error.code in (502, 503) else TurnoutError)
        message = f"{url} answers HTTP {error.code}: {told['message']}"
        return kind(str(told["message"]) if told.get("kind") else message, str(told.get("next_step") or _WHERE_TO))
    except (ValueError, KeyError, TypeError, AttributeError):
        return EngineUnreachable(f"{url} answers HTTP {error.code}", "See the gateway's log.")
