"""The adapter that a bench measures: a registered name's champion, or a folder."""

import json
from dataclasses import dataclass
from pathlib import Path

from turnout.digests import ADAPTER_FILES, adapter_sha256
from turnout.errors import BadInput, NotFound
from turnout.paths import Home
from turnout.references import Base


@dataclass(frozen=True)
class BenchAdapter:
    """`folder` holds its two files; `targets` are the modules that it changes."""

    name: str
    folder: Path
    sha256: str
    rank: int
    targets: tuple[str, ...]


def find_adapter(home: Home, name: str, base: Base) -> BenchAdapter:
    """The adapter in the folder `name`, or the champion of the registered name `name`.

    Raises:
        NotFound: there is neither such a folder nor such a name.
        BadInput: the folder holds no adapter, or the version was made for another base.
    """
    folder = Path(name).expanduser()
    if "/" in name or folder.is_dir():
        return _in_folder(folder)
    from registry.adapters import fetch
    from registry.names import unknown_name
    from registry.releases import fold, read_log
    from registry.store import connect
    from registry.versions import get_version, list_names

    client = connect(home)
    if name not in (known := list_names(client)):
        raise unknown_name(name, known)
    champion = fold(read_log(client, name)).champion
    if champion is None:
        raise NotFound(f"{name} has no champion", f"Promote a version (turnout versions {name}), or name a folder.")
    version = get_version(client, name, champion)
    if version.manifest.base_sha256 not in (base.sha256, base.parity_of):
        raise BadInput(
            f"{version.served_name} was trained on {version.manifest.base} ({version.manifest.base_sha256[:12]}), "
            f"and the bench is to run on {base.name} ({base.sha256[:12]})",
            "Give the preset with its base: -c PRESET.",
        )
    return _described(version.served_name, fetch(client, version, home))


def _in_folder(folder: Path) -> BenchAdapter:
    folder = folder.resolve()
    if missing := [name for name in ADAPTER_FILES if not (folder / name).is_file()]:
        raise NotFound(f"{folder} holds no adapter: {', '.join(missing)} is missing", "Name a PEFT adapter's folder.")
    return _described(folder.name, folder)


def _described(name: str, folder: Path) -> BenchAdapter:
    file = folder / "adapter_config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        targets = config["target_modules"]
        rank = int(config["r"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{file} is not a LoRA adapter's configuration: {error!r}", "Name a PEFT adapter's folder."
        ) from None
    named = tuple(targets) if isinstance(targets, list) else ()
    return BenchAdapter(name, folder, adapter_sha256(folder), rank, named)
