"""Finds the base that a version is served on, where this home does not know it yet."""

from collections.abc import Callable
from pathlib import Path

from registry.versions import Version
from serving.config import ServingConfig
from tasks.bases import BUNDLED, ensure_parity_base, resolve_base
from tasks.bundled import ID as BUNDLED_ID
from turnout.errors import NotFound
from turnout.references import Base


def base_finder(base_name: str, config: ServingConfig) -> Callable[[Version], Base]:
    """A function that makes or finds the base that a version was released on.

    It raises NotFound where that base is not here under its name.

    Args:
        base_name: where to look first.
        config: says whether versions whose release did not note it are served on the parity base.
    """

    def find(version: Version) -> Base:
        manifest, noted = version.manifest, version.tags.get("served_base_sha256")
        original = _original(manifest.base, manifest.base_sha256, base_name)
        parity = version.tags["served_base"] != original.name if "served_base" in version.tags else None
        if not (config.base == "parity" if parity is None else parity):
            return original
        base = ensure_parity_base(original)
        return base if noted in (None, base.sha256) else ensure_parity_base(original, double_quantisation=False)

    return find


def _original(base_id: str, sha256: str, base_name: str) -> Base:
    """The base `base_id` with these weights, by the name that a preset gives, or by its id."""
    names = [name for name in (base_name, BUNDLED, base_id) if _may_be(name, base_id)]
    for name in dict.fromkeys(names):
        try:
            base = resolve_base(name)
        except (NotFound, ValueError):
            continue
        if base.sha256 == sha256:
            return base
    raise NotFound(
        f"its base {base_id} ({sha256[:12]}) is not here (looked for {', '.join(names) or 'nothing'}): "
        "give a preset whose `base` says where it lies, turnout up -c PRESET",
    )


def _may_be(name: str, base_id: str) -> bool:
    """Whether `resolve_base(name)` may have that id; nothing is made or fetched to find out."""
    return base_id == (BUNDLED_ID if name == BUNDLED else name) or Path(name).expanduser().name == base_id
