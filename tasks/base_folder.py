"""What a base model's folder holds, and its digests, which are kept so that gigabytes are hashed once."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnout.digests import file_sha256, json_sha256
from turnout.errors import BadInput
from turnout.files import read_state, write_json
from turnout.paths import cache
from turnout.references import Base, to_json

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
)
"""All that a tokenizer may be read from, besides the chat template."""


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that the model is loaded from; empty where one is missing."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = set(_json(index).get("weight_map", {}).values())
        files = [folder / name for name in sorted(names)]
    else:
        files = [folder / "model.safetensors"]
    return files if all(file.is_file() for file in files) else []


def missing_parts(folder: Path) -> list[str]:
    """What a base's folder must hold and this one does not."""
    parts = {
        "config.json": (folder / "config.json").is_file(),
        "weights (model.safetensors, or all files of model.safetensors.index.json)": bool(weight_files(folder)),
        "a tokenizer (tokenizer.json, tokenizer.model or vocab.json with merges.txt)": any(
            (folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")
        ),
        "a chat template (chat_template.jinja, or chat_template in tokenizer_config.json)": chat_template(folder) != "",
    }
    return [part for part, there in parts.items() if not there]


def check_folder(folder: Path) -> None:
    """Raises BadInput where `folder` is no base model."""
    if missing := missing_parts(folder):
        raise BadInput(
            f"{folder} is no base model: it lacks {'; '.join(missing)}",
            "Name a folder that save_pretrained wrote for an instruct model and its tokenizer, or use `base: bundled`.",
        )


def chat_template(folder: Path) -> str:
    """The tokenizer's default chat template, or ''."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    settings = folder / "tokenizer_config.json"
    template = _json(settings).get("chat_template", "") if settings.is_file() else ""
    if isinstance(template, list):
        template = {entry["name"]: entry["template"] for entry in template}.get("default", "")
    return str(template or "")


def eos_ids(folder: Path) -> tuple[int, ...]:
    """Every token that ends an answer: the generation config's (or else the config's) and the tokenizer's own."""
    ids: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        file = folder / name
        value = _json(file).get("eos_token_id") if file.is_file() else None
        ids.update(value if isinstance(value, list) else [] if value is None else [value])
        if ids:
            break
    own = _tokenizer_eos(folder)
    return tuple(sorted(ids | ({own} if own is not None else set())))


def _tokenizer_eos(folder: Path) -> int | None:
    settings, tokens = folder / "tokenizer_config.json", folder / "tokenizer.json"
    if not settings.is_file() or not tokens.is_file():
        return None
    eos = _json(settings).get("eos_token")
    text = eos.get("content") if isinstance(eos, dict) else eos
    content = _json(tokens)
    added = {token["content"]: token["id"] for token in content.get("added_tokens", [])}
    vocabulary = content.get("model", {}).get("vocab", {})
    return added.get(text, vocabulary.get(text) if isinstance(vocabulary, dict) else None)


def describe(folder: Path, *, base_id: str, name: str, **more: Any) -> Base:
    """The reference to the base in `folder`, which must be whole."""
    digests = _digests(folder)
    tokenizer = [file for file in TOKENIZER_FILES if file in digests]
    weights = ["config.json", *(file.name for file in weight_files(folder))]
    return Base(
        id=base_id,
        name=name,
        path=str(folder),
        sha256=json_sha256(sorted((file, digests[file]) for file in weights)),
        tokenizer_sha256=json_sha256(sorted((file, digests[file]) for file in tokenizer)),
        template_sha256=hashlib.sha256(chat_template(folder).encode()).hexdigest(),
        eos_ids=eos_ids(folder),
        **more,
    )


def _digests(folder: Path) -> dict[str, str]:
    """sha256 of each file that makes the base; a file whose size and time are as recorded is not read again."""
    files = [folder / "config.json", *weight_files(folder)]
    files += [folder / name for name in TOKENIZER_FILES if (folder / name).is_file()]
    record = cache() / "digests" / f"{hashlib.sha256(str(folder).encode()).hexdigest()[:32]}.json"
    known = read_state(record, dict[str, _Hashed]) or {}
    stamped = {file.name: _stamp(file) for file in files}
    fresh = {
        name: known[name]
        if name in known and known[name].stamp == stamp
        else _Hashed(stamp, file_sha256(folder / name))
        for name, stamp in stamped.items()
    }
    if fresh != known:
        write_json(record, {name: to_json(entry) for name, entry in fresh.items()})
    return {name: entry.sha256 for name, entry in fresh.items()}


@dataclass(frozen=True)
class _Hashed:
    """A file's digest while its size in bytes and its time in ns are those of `stamp`."""

    stamp: list[int]
    sha256: str


def _stamp(file: Path) -> list[int]:
    status = file.stat()
    return [status.st_size, status.st_mtime_ns]


def _json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise BadInput(f"{file} cannot be read as JSON: {error}", "Fetch the base model again.") from error
    if not isinstance(value, dict):
        raise BadInput(f"{file} holds no JSON object", "Fetch the base model again.")
    return value
