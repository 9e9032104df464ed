"""The clients' keys: who may call which names. Only their hashes are kept."""

import hashlib
import json
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import ValidationError

from turnout.errors import BadInput, NotFound
from turnout.files import exclusive, write_json
from turnout.paths import Home
from turnout.references import from_json, to_json

ALL_NAMES = "*"
_ID = re.compile(r"[a-z0-9-]{1,63}")
_VERSION = re.compile(r"-v[1-9]\d*$")


@dataclass(frozen=True)
class ClientKey:
    """`sha256` is of the whole key text. `names` are what it may call; `created` is a UTC timestamp."""

    id: str
    sha256: str
    names: tuple[str, ...]
    created: str = ""


@dataclass(frozen=True)
class _Entry:
    sha256: str
    names: tuple[str, ...]
    created: str = ""


@dataclass(frozen=True)
class _KeyFile:
    keys: dict[str, _Entry] = field(default_factory=dict)


def read_keys(home: Home) -> dict[str, ClientKey]:
    """This home's keys by id; none where there is no file.

    Raises:
        BadInput: the file is there and cannot be read. Taking that for "no keys" would open the gateway to all.
    """
    try:
        entries = from_json(_KeyFile, json.loads(home.keys.read_text(encoding="utf-8"))).keys
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        reason = "not what Turnout wrote" if isinstance(error, ValidationError) else error
        raise BadInput(
            f"the client keys in {home.keys} cannot be read: {reason}",
            "put a backup in its place, or remove it and add the keys anew",
        ) from error
    return {id_: ClientKey(id_, entry.sha256, entry.names, entry.created) for id_, entry in entries.items()}


def list_keys(home: Home) -> list[ClientKey]:
    """This home's keys in the order of their ids.

    Raises:
        BadInput: as in `read_keys`.
    """
    return sorted(read_keys(home).values(), key=lambda key: key.id)


def add_key(home: Home, id: str, names: Collection[str]) -> str:  # noqa: A002
    """Make a key that may call `names` (`*`: all of them) and return its text, which is kept nowhere.

    Raises:
        BadInput: the id cannot be one or is taken, or the names are none.
    """
    if not _ID.fullmatch(id):
        raise BadInput(f"{id!r} cannot be a key's id", "use 1 to 63 lower-case letters, digits and dashes")
    bad = [name for name in names if not name or re.search(r"[\s,]", name)]
    if not names or bad:
        what = f"{bad[0]!r} cannot be a name" if bad else f"the key {id!r} would have no names"
        raise BadInput(what, "give the names that it may call, as in incidents,support, or * for all")
    text = f"sk-turnout-{id}.{secrets.token_urlsafe(32)}"
    key = ClientKey(
        id,
        hashlib.sha256(text.encode()).hexdigest(),
        tuple(dict.fromkeys(names)),
        datetime.now(UTC).isoformat(timespec="seconds"),
    )
    with exclusive(home.lock("keys")):
        keys = read_keys(home)
        if id in keys:
            raise BadInput(
                f"there is a key {id!r} already, made {keys[id].created}",
                f"choose another id, or replace it: turnout keys remove {id}",
            )
        _write(home, {**keys, id: key})
    return text


def remove_key(home: Home, id: str) -> int:  # noqa: A002
    """Take a key away and return how many are left: without any, the gateway is open to all.

    Raises:
        NotFound: there is no such key.
    """
    with exclusive(home.lock("keys")):
        keys = read_keys(home)
        if id not in keys:
            known = ", ".join(sorted(keys)) or "none"
            raise NotFound(f"there is no key {id!r}; known: {known}", "`turnout keys list` shows them")
        del keys[id]
        _write(home, keys)
    return len(keys)


def key_allows(key: ClientKey, name: str) -> bool:
    """Whether the key may call `name`: one of its names, or a version of one."""
    return ALL_NAMES in key.names or name in key.names or _VERSION.sub("", name) in key.names


def _write(home: Home, keys: dict[str, ClientKey]) -> None:
    """Written with mode 0600, as all of Turnout's files that are replaced whole."""
    entries = {key.id: _Entry(key.sha256, key.names, key.created) for key in keys.values()}
    write_json(home.keys, to_json(_KeyFile(entries)))
