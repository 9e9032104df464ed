"""Translates constraints on an answer into llama.cpp's grammars (GBNF)."""

import json
from typing import Any

from serving.llama_cpp.errors import RequestRefused

ANY_JSON: dict[str, Any] = {"type": "object"}


def to_grammar(request: dict[str, Any]) -> str | None:
    """The grammar that a request asks for, by `grammar`, `structured_outputs` or `response_format`.

    Raises:
        RequestRefused: 400, more than one of them, or one that llama.cpp cannot be made to keep.
    """
    asked = [*_own(request), *_structured(request), *_response_format(request)]
    if len(asked) > 1:
        raise RequestRefused("give one constraint: grammar, structured_outputs or response_format")
    return asked[0] if asked else None


def _own(request: dict[str, Any]) -> list[str]:
    grammar = request.get("grammar")
    return [] if not grammar else [_checked(grammar)]


def _structured(request: dict[str, Any]) -> list[str]:
    asked = request.get("structured_outputs")
    if not asked:
        return []
    if not isinstance(asked, dict):
        raise RequestRefused("structured_outputs must be an object")
    found = []
    for kind, value in asked.items():
        if value is None or value is False:
            continue
        if kind == "json":
            found.append(_of_schema(_parsed(value)))
        elif kind == "json_object":
            found.append(_of_schema(ANY_JSON))
        elif kind == "grammar":
            found.append(_checked(value))
        elif kind == "choice":
            found.append(_of_choice(value))
        else:
            raise RequestRefused(f"llama.cpp does not serve structured_outputs.{kind:.50}: json, grammar or choice")
    return found


def _response_format(request: dict[str, Any]) -> list[str]:
    asked = request.get("response_format") or {}
    kind = asked.get("type", "text") if isinstance(asked, dict) else asked
    if kind == "text":
        return []
    if kind == "json_object":
        return [_of_schema(asked.get("schema") or ANY_JSON)]
    if kind == "json_schema":
        return [_of_schema((asked.get("json_schema") or {}).get("schema"))]
    raise RequestRefused(f"response_format.type={kind!r:.50}: text, json_object or json_schema")


def _of_schema(schema: Any) -> str:
    """GBNF by llama.cpp's own converter, from the package that is built without llguidance.

    The server's goes through llguidance, and answers without any constraint where that cannot compile a schema.
    """
    from cyllama.llama.llama_cpp import json_schema_to_grammar
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    if not isinstance(schema, dict):
        raise RequestRefused("a JSON schema must be an object")
    try:
        validator_for(schema).check_schema(schema)
        return str(json_schema_to_grammar(schema))
    except SchemaError as error:
        raise RequestRefused(f"the JSON schema is not valid: {error.message:.300}") from None
    except (AssertionError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RequestRefused(f"llama.cpp cannot keep to this JSON schema: {error!s:.300}") from None


def _parsed(schema: Any) -> Any:
    try:
        return json.loads(schema) if isinstance(schema, str) else schema
    except ValueError as error:
        raise RequestRefused(f"the JSON schema is not JSON: {error}") from None


def _of_choice(choices: Any) -> str:
    if not isinstance(choices, list) or not choices or not all(isinstance(each, str) and each for each in choices):
        raise RequestRefused("structured_outputs.choice must be a list of texts, none of them empty")
    # JSON's escapes are GBNF's too, down to \uXXXX.
    return "root ::= " + " | ".join(json.dumps(each, ensure_ascii=False) for each in choices)


def _checked(grammar: Any) -> str:
    if not isinstance(grammar, str) or "root" not in grammar or "::=" not in grammar:
        raise RequestRefused("a grammar must be GBNF text with a rule named root: `root ::= …`")
    if "%llguidance" in grammar:
        raise RequestRefused("a grammar must be GBNF; what llguidance cannot compile would be ignored in silence")
    return grammar
