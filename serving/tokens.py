"""The token that admin calls need."""

import os
import secrets

from turnout.files import exclusive, write_atomically
from turnout.paths import Home

ADMIN_TOKEN = "TURNOUT_ADMIN_TOKEN"  # noqa: S105


def admin_token(home: Home) -> str:
    """TURNOUT_ADMIN_TOKEN where it is set, else this home's own, made when it is missing (a file of mode 0600)."""
    if given := os.environ.get(ADMIN_TOKEN):
        return given
    with exclusive(home.lock("admin-token")):
        if not home.admin_token.exists():
            write_atomically(home.admin_token, secrets.token_urlsafe(32) + "\n")
        return home.admin_token.read_text(encoding="utf-8").strip()
