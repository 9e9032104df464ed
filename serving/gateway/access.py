"""Who may call: client keys, and the token of admin calls."""

import hashlib
import hmac
import logging
import time
from collections.abc import Iterable

from serving.gateway.errors import ApiError
from serving.keys import ClientKey, key_allows, read_keys
from turnout.errors import BadInput
from turnout.paths import Home

_CHECK_EVERY_S = 1.0
_KEY_PREFIX = "sk-turnout-"
_WHERE = "Send it as `Authorization: Bearer <key>`."


class Access:
    """The client keys of a home, read again when their file changes. Without any, everybody may call everything."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._keys: dict[str, ClientKey] | None = {}
        self._stamp: tuple[int, int, int] | None = None
        self._next_check = 0.0

    def identify(self, authorization: str | None) -> ClientKey | None:
        """The key that a client sent, or None where none is needed.

        Raises:
            ApiError: 401, it is missing or not known; 503, the keys cannot be read.
        """
        if time.monotonic() >= self._next_check:
            self._refresh()
        if self._keys is None:
            raise ApiError(503, "the gateway cannot read its client keys; its log says why", kind="keys")
        if not self._keys:
            return None
        text = bearer(authorization)
        if not text:
            raise ApiError(401, f"a client key is needed. {_WHERE}", code="invalid_api_key")
        key = self._keys.get(text.removeprefix(_KEY_PREFIX).partition(".")[0])
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        if not hmac.compare_digest(digest, key.sha256 if key else "") or key is None:
            raise ApiError(401, f"the client key is not known here. {_WHERE}", code="invalid_api_key")
        return key

    def _refresh(self) -> None:
        self._next_check = time.monotonic() + _CHECK_EVERY_S
        try:
            status = self._home.keys.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        except FileNotFoundError:
            self._keys, self._stamp = {}, None
            return
        if stamp == self._stamp:
            return
        try:
            self._keys = read_keys(self._home)
        except BadInput as error:
            logging.error("%s", error)
            self._keys = None
        self._stamp = stamp


def bearer(authorization: str | None) -> str:
    scheme, _, text = (authorization or "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def may_call(key: ClientKey | None, name: str) -> bool:
    return key is None or key_allows(key, name)


def visible(key: ClientKey | None, names: Iterable[str]) -> list[str]:
    return [name for name in names if may_call(key, name)]


def require_admin(authorization: str | None, token: str) -> None:
    """Raises ApiError, 401, unless `token` was sent."""
    sent = bearer(authorization).encode("utf-8", "surrogateescape")
    if not hmac.compare_digest(sent, token.encode()):
        message = "admin calls need `Authorization: Bearer <token>` with the token in TURNOUT_HOME/admin-token"
        raise ApiError(401, message, code="invalid_api_key")
