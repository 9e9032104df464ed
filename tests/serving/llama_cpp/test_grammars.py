"""Constraints on answers, as llama.cpp's grammars."""

from typing import Any

import pytest

from serving.llama_cpp.errors import RequestRefused
from serving.llama_cpp.grammars import to_grammar

SCHEMA = {"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]}


def test_the_three_ways_to_give_a_schema_mean_the_same() -> None:
    ways: list[dict[str, Any]] = [
        {"structured_outputs": {"json": SCHEMA}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
        {"response_format": {"type": "json_object", "schema": SCHEMA}},
    ]
    grammars = {to_grammar(way) for way in ways}
    assert len(grammars) == 1 and "port" in str(grammars)


def test_choices_are_quoted() -> None:
    assert to_grammar({"structured_outputs": {"choice": ["yes", 'a "no"']}}) == 'root ::= "yes" | "a \\"no\\""'


def test_without_a_constraint_there_is_no_grammar() -> None:
    assert to_grammar({"response_format": {"type": "text"}}) is None


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"structured_outputs": {"json": {"type": "zork"}}}, "not valid"),
        ({"structured_outputs": {"json": {"$ref": "#/definitions/x"}}}, "cannot keep to"),
        ({"structured_outputs": {"json": {"type": "string", "pattern": "^(?=a)b$"}}}, "cannot keep to"),
        ({"structured_outputs": {"json": "{"}}, "not JSON"),
        ({"structured_outputs": {"regex": "a+"}}, "structured_outputs.regex"),
        ({"structured_outputs": {"choice": []}}, "choice"),
        ({"grammar": "%llguidance {}\nstart: root ::="}, "GBNF"),
        ({"grammar": "hello"}, "GBNF"),
        ({"grammar": "root ::= [a]", "structured_outputs": {"choice": ["a"]}}, "one constraint"),
        ({"response_format": {"type": "xml"}}, "xml"),
    ],
)
def test_what_cannot_be_kept_to_is_refused(request_: dict[str, Any], reason: str) -> None:
    with pytest.raises(RequestRefused, match=reason):
        to_grammar(request_)
