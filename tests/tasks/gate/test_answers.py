from dataclasses import replace

import pytest
from pydantic import ValidationError

from tasks.answers_config import FormatConfig
from tasks.config import GateConfig
from tasks.gate import answers
from tasks.gate.answers import format_rule
from tests.tasks.measured import WELL
from turnout.errors import PresetError
from turnout.references import Answer

SCHEMA = {"type": "object", "required": ["cause"], "properties": {"cause": {"type": "string"}}}


def said(*texts: str) -> list[Answer]:
    return [replace(WELL[0], text=text) for text in texts]


@pytest.mark.parametrize(("share", "passes"), [(1.0, False), (0.5, True)])
def test_a_share_of_the_answers_must_match(share: float, passes: bool) -> None:
    rule = format_rule(FormatConfig(regex=r"^Cause: .+ Fix: ", share=share), said("Cause: a Fix: b", "I think"))
    assert rule.passed is passes and (rule.figure, rule.limit) == (0.5, share) and "'I think'" in rule.text


def test_json_must_fit_its_schema() -> None:
    form = FormatConfig(json_schema=SCHEMA)
    assert format_rule(form, said('{"cause": "a"}', ' {"cause": "디스크"}\n')).passed
    for wrong in ('{"cause": 1}', "cause", '{"cause": "a"} Done.', "[" * 100_000):
        assert not format_rule(form, said(wrong)).passed


@pytest.mark.parametrize("form", [{"regex": "(a+)+$"}, {"json_schema": {"pattern": "(a+)+$"}}])
def test_a_pattern_that_never_ends_is_given_up(form: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "LIMIT_S", 2)
    with pytest.raises(PresetError, match="not done with 1 answers after 2 s"):
        format_rule(FormatConfig.model_validate(form), said(f'"{"a" * 60}!"'))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
        {"$id": "http://e/root", "$ref": "b", "$defs": {"b": {"$id": "b", "type": "object"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"$ref": {"type": "string"}}},
    ],
)
def test_a_schema_may_refer_to_its_own_parts(schema: dict[str, object]) -> None:
    assert format_rule(FormatConfig(json_schema=schema), said("{}")).passed


def test_no_answers_is_no_pass() -> None:
    assert not format_rule(FormatConfig(regex="a"), []).passed


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ({}, "either regex or json_schema"),
        ({"regex": "a", "json_schema": SCHEMA}, "either regex or json_schema"),
        ({"regex": "("}, "no regular expression"),
        ({"regex": "a{99999999999999999999}"}, "no regular expression"),
        ({"json_schema": {"type": 3}}, "no JSON schema"),
        ({"json_schema": {"pattern": "("}}, "no JSON schema"),
        ({"json_schema": {"$ref": "http://127.0.0.1:9/schema.json"}}, "which is not in it: write it under"),
        ({"json_schema": {"items": {"$ref": "#/$defs/gone"}}}, "which is not in it"),
        ({"json_schema": {"$schema": 5}}, "5 as its .schema, which is not known"),
        ({"json_schema": {"$schema": ["a"]}}, "is not known"),
        ({"json_schema": {"$schema": "http://nowhere/x"}}, "is not known"),
    ],
)
def test_a_format_is_checked_when_it_is_loaded(form: dict[str, object], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        GateConfig.model_validate({"format": form})
