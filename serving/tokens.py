"""The token that admin calls need."""

import os
import re
import secrets

from turnout.errors import BadInput
from turnout.files import exclusive, write_atomically
from turnout.paths import Home

ADMIN_TOKEN = "TURNOUT_ADMIN_TOKEN"  # noqa: S105
_SENDABLE = re.compile(r"[!-~]+")


def admin_token(home: Home) -> str:
    """TURNOUT_ADMIN_TOKEN where it is set, else this home's own, made when missing or empty (a file of mode 0600).

    Raises:
        BadInput: it cannot be sent in a header.
    """
    if given := os.environ.get(ADMIN_TOKEN):
        return _checked(given, ADMIN_TOKEN)
    with exclusive(home.lock("admin-token")):
        token = home.admin_token.read_text("utf-8", "replace").strip() if home.admin_token.exists() else ""
        if not token:  # an empty one would let everybody in
            token = secrets.token_urlsafe(32)
            write_atomically(home.admin_token, token + "\n")
    return _checked(token, str(home.admin_token))


def _checked(token: str, where: str) -> str:
    if not _SENDABLE.fullmatch(token):
        raise BadInput(
            f"the admin token in {where} has spaces or characters beyond ASCII, which no header carries",
            "give another, such as `openssl rand -hex 32` prints; then `turnout down` and `turnout up`",
        )
    return token
