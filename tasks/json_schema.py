"""JSON schemas that a preset names: whether they are ones, and whether a text fits them; nothing is ever fetched."""

import json
from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]


def schema_problem(schema: Schema) -> str:
    """What keeps `schema` from being used, in words; empty where nothing does."""
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for
    from referencing.exceptions import Unresolvable

    dialect = schema.get("$schema", "")
    if not isinstance(dialect, str) or (dialect and validator_for(schema, default=None) is None):
        return f"names {dialect!r:.100} as its $schema, which is not known: leave that out"
    try:
        validator_for(schema).check_schema(schema)
        _look_up_references(schema)
    except SchemaError as error:
        return f"is no JSON schema: {error.message:.200}"
    except Unresolvable as error:
        return f"names {error.ref!r:.100}, which is not in it: write it under $defs"
    except (ValueError, OverflowError, RecursionError) as error:
        return f"cannot be used: {error!s:.200}"
    return ""


def _look_up_references(schema: Schema) -> None:
    """Raises Unresolvable where a reference leads nowhere within `schema`."""
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT202012

    root = Resource.from_contents(schema, default_specification=DRAFT202012)
    place = root.id() or ""
    parts = [(root, Registry().with_resource(place, root).crawl().resolver(place))]
    while parts:
        part, around = parts.pop()
        here = around.in_subresource(part)
        if isinstance(part.contents, dict) and isinstance(reference := part.contents.get("$ref"), str):
            here.lookup(reference)
        parts += [(inner, here) for inner in part.subresources()]


def schema_check(schema: Schema) -> Callable[[str], bool]:
    """Says of a text whether it is one JSON value that `schema` allows."""
    from jsonschema.validators import validator_for
    from referencing import Registry

    # An empty registry: the default one would fetch what `$ref` names from the network.
    validator = validator_for(schema)(schema, registry=Registry())

    def fits(text: str) -> bool:
        try:
            return bool(validator.is_valid(json.loads(text)))
        except (ValueError, RecursionError):
            return False

    return fits
