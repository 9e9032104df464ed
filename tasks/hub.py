"""Base models by their id on the Hugging Face hub: found in the local cache, or fetched."""

import os
import re
from pathlib import Path

from tasks.base_folder import missing_parts
from turnout.errors import BadInput, ResourceShort

_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "tokenizer.model"]
TIMEOUT_S = 3.0


def is_hub_id(name: str) -> bool:
    return _ID.fullmatch(name) is not None and not name.endswith((".gguf", ".safetensors", ".json", ".yaml"))


def cached_snapshot(hub_id: str) -> Path | None:
    """The newest whole snapshot of `hub_id` in the hub's local cache."""
    from huggingface_hub import constants

    repository = Path(constants.HF_HUB_CACHE) / f"models--{hub_id.replace('/', '--')}"
    main = repository / "refs" / "main"
    if not main.is_file():
        return None
    snapshot = repository / "snapshots" / main.read_text(encoding="utf-8").strip()
    return snapshot if snapshot.is_dir() and not missing_parts(snapshot) else None


def find_on_hub(hub_id: str) -> str:
    """The commit that `hub_id` is at now.

    Raises:
        BadInput: the hub does not know the id, refuses it, or is out of reach, within a few seconds.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    look = f"base {hub_id!r}: no such folder, not in the hub's local cache {constants.HF_HUB_CACHE}"
    if constants.HF_HUB_OFFLINE:
        raise BadInput(f"{look}, and HF_HUB_OFFLINE is set", _next_step())
    try:
        return str(HfApi().model_info(hub_id, timeout=TIMEOUT_S).sha)
    except (GatedRepoError, RepositoryNotFoundError) as error:
        reason = "asks for access first" if isinstance(error, GatedRepoError) else "does not show such a model"
        raise BadInput(
            f"{look}, and {constants.ENDPOINT} {reason}",
            "Check the id; for a private or gated model set HF_TOKEN to a token that may read it.",
        ) from error
    except Exception as error:  # which exceptions come depends on the HTTP library that huggingface_hub found
        raise BadInput(
            f"{look}, and {constants.ENDPOINT} is out of reach ({type(error).__name__})", _next_step()
        ) from error


def fetch(hub_id: str) -> Path:
    """The folder of `hub_id`'s snapshot, downloaded where it is not in the local cache.

    Raises:
        BadInput: see `find_on_hub`; or the model has no safetensors weights.
        ResourceShort: the disk is full.
    """
    if snapshot := cached_snapshot(hub_id):
        return snapshot
    revision = find_on_hub(hub_id)
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(hub_id, revision=revision, allow_patterns=FILES))
    except OSError as error:
        if error.errno == 28:
            raise ResourceShort(
                f"the disk is full while fetching {hub_id}: {error}", "Free space, or move the cache with HF_HOME."
            ) from error
        raise BadInput(f"fetching {hub_id} broke off: {error}", "Run the same command again: it goes on.") from error
    return folder


def _next_step() -> str:
    token = "" if os.environ.get("HF_TOKEN") else " (with HF_TOKEN for private ones)"
    return f"Use `base: bundled`, name a local folder, or run once with the hub in reach{token}."
