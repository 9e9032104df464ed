"""Reads a preset by name or file, applies `--set` values, and says where a wrong value stands."""

import difflib
import reprlib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from flows.config import PipelineConfig
from serving.config import ServingConfig
from turnout.errors import PresetError

Lines = dict[tuple[str, ...], int]

DEEPEST = 4
"""How deep keys stand, as data.checks.leaked.action does. YAML's anchors can go on for ever."""

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 100


def preset_names() -> list[str]:
    """The names of the presets that ship with Turnout."""
    folder = resources.files("flows.presets")
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load_preset(source: str, overrides: Iterable[str] = ()) -> PipelineConfig:
    """The settings of a preset's name or a YAML file's path, with `a.b=c` overrides applied in order.

    Raises:
        PresetError: no such preset, unreadable YAML, an unknown key or a value out of bounds.
    """
    label, text = _read(source)
    values, lines = _parse(label, text)
    return _overridden(values, label, lines, overrides)


def with_serving(kept: ServingConfig, overrides: Iterable[str] = ()) -> PipelineConfig:
    """Settings to serve with: `kept` ones, with `a.b=c` overrides applied in order; nothing is trained with them.

    Raises:
        PresetError: an unknown key or a value out of bounds.
    """
    # Rows and ranks were judged when a run began; the least ones let an engine have any limits.
    values = {"name": "up", "data": {"max_length": 16}, "train": {"lora_rank": 1}, "serving": kept.model_dump()}
    return _overridden(values, "the settings of the last start", {}, overrides)


def _overridden(values: dict[str, Any], label: str, lines: Lines, overrides: Iterable[str]) -> PipelineConfig:
    for override in overrides:
        lines.pop(_apply(values, override), None)
    return check(values, label, lines)


def check(values: Mapping[str, Any], label: str, lines: Lines | None = None) -> PipelineConfig:
    """`values` as settings; `label` and `lines` say in errors where they came from."""
    try:
        return PipelineConfig.model_validate(values)
    except ValidationError as error:
        # A union reports one problem for each of its members; the first says enough.
        problems = {_key(problem): problem for problem in reversed(error.errors())}
        text = "; ".join(_describe(key, lines or {}, problem) for key, problem in problems.items())
        raise PresetError(f"{label}: {text}", "Correct the preset, or the value given with --set.") from None


def _read(source: str) -> tuple[str, str]:
    if source in preset_names():
        return f"preset {source}", (resources.files("flows.presets") / f"{source}.yaml").read_text("utf-8")
    path = Path(source)
    try:
        if path.is_dir():
            raise PresetError(f"{path} is a folder, not a preset file", "Name a YAML file or a preset.")
        return str(path), path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PresetError(
            f"{path} is not UTF-8: byte {error.start} is not part of a character", "Save it as UTF-8."
        ) from None
    except (OSError, ValueError) as error:
        if isinstance(error, PresetError):
            raise
        near = difflib.get_close_matches(source, preset_names(), 1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise PresetError(
            f"There is no preset or readable file {_shown(source)} ({getattr(error, 'strerror', None) or error})",
            f"{hint}Presets: {', '.join(preset_names())}.",
        ) from None


def _parse(label: str, text: str) -> tuple[dict[str, Any], Lines]:
    try:
        node, values = yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text)
    except RecursionError:
        raise PresetError(f"{label}: not YAML that can be read: nested too deeply", "Correct the file.") from None
    except (yaml.YAMLError, ValueError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{label}, line {mark.line + 1}" if mark else label
        raise PresetError(
            f"{where}: not YAML: {getattr(error, 'problem', None) or error}", "Correct the file."
        ) from None
    if not isinstance(values, dict):
        raise PresetError(f"{label} holds no settings", "Start with `name:`; the presets that ship are examples.")
    lines: Lines = {}
    for path, line in _key_lines(node, ()):
        if path in lines:
            raise PresetError(
                f"{label}: the key {'.'.join(path)!r} stands in line {lines[path]} and again in line {line}",
                "Keep one of them.",
            )
        lines[path] = line
    return values, lines


def _key_lines(node: yaml.Node | None, path: tuple[str, ...]) -> Iterable[tuple[tuple[str, ...], int]]:
    if isinstance(node, yaml.MappingNode) and len(path) < DEEPEST:
        for key, value in node.value:
            inner = (*path, str(key.value))
            yield inner, key.start_mark.line + 1
            yield from _key_lines(value, inner)


def _apply(values: dict[str, Any], override: str) -> tuple[str, ...]:
    """Set one value in place; returns its key."""
    key, found, text = override.partition("=")
    if not found or not key.strip():
        raise PresetError(f"--set {_shown(override)} is not of the form a.b=c", "For example: --set train.epochs=3")
    *sections, last = key.strip().split(".")
    target = values
    for section in sections:
        inner = target.setdefault(section, {})
        if not isinstance(inner, dict):
            raise PresetError(
                f"--set {_shown(override)}: {section} is a value, not a section", "Set it without the dot."
            )
        target = inner
    try:
        target[last] = yaml.safe_load(text)
    except RecursionError:
        raise PresetError(f"--set {_shown(override)} is nested too deeply", "Give a plain value or a list.") from None
    except (yaml.YAMLError, ValueError):
        target[last] = text
    return (*sections, last)


def _key(problem: Any) -> tuple[str, ...]:
    """The preset's key that a problem is about: pydantic appends the union member or the list index it tried."""
    path = tuple(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return path
    return path[: next((at for at in range(1, len(path)) if path[at] not in _keys(path[:at])), len(path))]


def _describe(path: tuple[str, ...], lines: Lines, problem: Any) -> str:
    key = ".".join(path)
    where = f"line {lines[path]}: " if path in lines else ""
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(path[-1], _keys(path[:-1]), 1, cutoff=0.5) or _elsewhere(path[-1])
        return f"{where}unknown key {key!r}" + (f" (did you mean {near[0]!r}?)" if near else "")
    if problem["type"] == "missing":
        return f"key {key!r} is missing"
    if problem["type"] == "value_error":
        return where + problem["msg"].removeprefix("Value error, ")
    return f"{where}{key}: {problem['msg']} (got {_shown(problem['input'])})"


def _shown(value: Any) -> str:
    try:
        return _short.repr(value)
    except ValueError:  # Python writes no numbers of thousands of digits
        return "a number too long to show"


def _keys(path: tuple[str, ...]) -> list[str]:
    model: type[BaseModel] = PipelineConfig
    for part in path:
        field = model.model_fields.get(part)
        kinds = [field.annotation, *get_args(field.annotation)] if field else []  # a section may be left out: X | None
        section = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
        if section is None:
            return []
        model = section
    return list(model.model_fields)


def _elsewhere(key: str) -> list[str]:
    """Where a key that stands in the wrong section belongs."""
    return [f"{section}.{key}" for section in PipelineConfig.model_fields if key in _keys((section,))]
