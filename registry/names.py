"""Names of adapters, and how their versions and release logs are called."""

import difflib
import re
from collections.abc import Iterable

from turnout.errors import BadInput, NotFound

_NAME = re.compile(r"[a-z0-9-]{1,63}")
_VERSIONED = re.compile(r"-v\d+$")
_VERSION = re.compile(r"v?([1-9]\d{0,8})")


def check_name(name: str) -> str:
    """Return `name` if it may be an adapter's; it becomes part of paths, URLs and MLflow filters.

    Raises:
        BadInput: not 1 to 63 of `[a-z0-9-]`, or it ends like a version's name.
    """
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"{name!r} ({len(name)} characters) cannot be an adapter's name",
            "use 1 to 63 lower-case letters, digits and dashes",
        )
    if _VERSIONED.search(name):
        raise BadInput(
            f"{name!r} cannot be an adapter's name: names that end in -v<number> are kept for versions",
            f"call it {_VERSIONED.sub('', name)!r}, or write the number without the v",
        )
    return name


def served_name(name: str, number: int) -> str:
    """The immutable name that a version is loaded under on an engine."""
    return f"{name}-v{number}"


def called(number: int | None) -> str:
    """A version in messages, where there may be none."""
    return "no version" if number is None else f"v{number}"


def releases_name(name: str) -> str:
    """The registered model whose versions are the release events of `name`."""
    return f"{check_name(name)}.releases"


def parse_version(name: str, text: str | int) -> int:
    """The number in 3, "3", "v3" or "<name>-v3".

    Raises:
        BadInput: none of these.
    """
    match = _VERSION.fullmatch(str(text).removeprefix(f"{name}-"))
    if match is None:
        raise BadInput(f"{text!r} is not a version of {name}", f'write it as 3, v3 or "{name}-v3"')
    return int(match.group(1))


def unknown_name(name: str, known: Iterable[str]) -> NotFound:
    """The error for an adapter that is not registered; it lists the known ones, nearest first."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=len(names) or 1, cutoff=0.0)
    listed = ", ".join(near[:10]) + (", …" if len(near) > 10 else "")
    return NotFound(
        f"no adapter named {name!r} is registered; known: {listed or 'none'}",
        "check the name, or register it with `turnout run`",
    )


def unknown_version(name: str, number: int, known: Iterable[int]) -> NotFound:
    """The error for a version that is not registered; it lists the newest known ones."""
    newest = sorted(known, reverse=True)
    listed = ", ".join(f"v{each}" for each in newest[:10]) + (", …" if len(newest) > 10 else "")
    return NotFound(
        f"{name} has no version {number}; registered: {listed or 'none'}",
        f"`turnout versions {name}` shows them with their losses",
    )
