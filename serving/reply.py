"""Whether an engine answers at all: plain requests for code that waits, without an event loop."""

import http.client
import json
import urllib.request

_TIMEOUT_S = 3.0


def is_healthy(url: str) -> bool:
    return _get(f"{url}/health") is not None


def fetch_version(url: str) -> str:
    """The engine's version, or "unknown" where it does not tell."""
    try:
        return str(json.loads(_get(f"{url}/version") or b"{}").get("version", "unknown"))
    except (ValueError, AttributeError):
        return "unknown"


def _get(url: str) -> bytes | None:
    # No proxy of the environment is meant to stand between this and an engine on loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_TIMEOUT_S) as answer:
            body: bytes = answer.read()
            return body
    except (OSError, http.client.HTTPException):
        return None
