"""Reads deploy/ as the programs that it is for do: YAML, variables filled in, references listed."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


class _ComposeLoader(yaml.SafeLoader):
    """Compose's own tag `!reset` takes a value out of the file below."""


_ComposeLoader.add_constructor("!reset", lambda loader, node: "reset")


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.load_all(path.read_text("utf-8"), _ComposeLoader) if each]


def variables(text: str) -> dict[str, str]:
    """The variables of a compose file, each with `-` (it has a default), `?` (it must be set) or nothing."""
    return {name: kind for name, kind, _ in _VARIABLE.findall(text)}


def filled(value: Any, env: Mapping[str, str]) -> Any:
    """`value` with compose's variables replaced."""
    if isinstance(value, dict):
        return {key: filled(each, env) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, env) for each in value]
    if not isinstance(value, str):
        return value
    return _VARIABLE.sub(lambda found: env.get(found[1]) or (found[3] if found[2] == "-" else ""), value)


def env_file(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def rendered(template: Path, **values: str) -> str:
    """A template of nginx's image, filled in as its entrypoint does."""
    text = template.read_text("utf-8")
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    assert "${" not in re.sub(r"#.*", "", text), template
    return text


def find(value: Any, key: str) -> Iterator[Any]:
    """What stands under `key`, anywhere in `value`."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name == key:
                yield each
            yield from find(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from find(each, key)


def public_paths() -> set[str]:
    """The paths that nginx lets through."""
    text = (DEPLOY / "nginx/templates/turnout.conf.template").read_text("utf-8")
    return set(re.findall(r"location = (\S+) \{ proxy_pass", text))
