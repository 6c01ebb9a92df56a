"""The JSON a tool call's argument becomes, by the tool's schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.argument_types import ArgumentTypes


def typed(schema: Any, text: str) -> Any:
    """The value of a parameter with this schema whose text is given."""
    types = ArgumentTypes({"type": "object", "properties": {"x": schema}})
    value = json.loads(types.to_json("x", text))
    if types.is_string("x"):
        assert value == text
    return value


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "123", "123"),
        ({"type": "string"}, "null", "null"),
        ({"type": "string"}, '{"a":1}', '{"a":1}'),
        ({"type": "string"}, "True", "True"),
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, " -5 ", -5),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "number"}, "3", 3),
        ({"type": "boolean"}, "true", True),
        ({"type": "object"}, '{"a":[1]}', {"a": [1]}),
        ({"type": "array"}, "[1,2]", [1, 2]),
        ({"type": "array"}, '[\n  "ä"\n]', ["ä"]),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": [1, 2]}, "1", 1),
        ({"const": 7}, "7", 7),
        ({"const": "7"}, "7", "7"),
        ({"type": "string", "enum": ["1"]}, "1", "1"),
        ({"properties": {"a": {}}}, "{}", {}),
        ({"items": {}}, "[]", []),
        ({}, "5", "5"),
        (True, "5", "5"),
        (None, "5", "5"),
        ({"type": "date"}, "5", "5"),
        ({"type": 3}, "5", "5"),
    ],
)
def test_a29_types_follow_the_schema(schema: Any, text: str, value: Any) -> None:
    found = typed(schema, text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("schema", "parameter", "value"),
    [
        (None, "x", "5"),
        ("nonsense", "x", "5"),
        ({"properties": []}, "x", "5"),
        ({"properties": {"y": {"type": "integer"}}}, "x", "5"),
        ({"properties": {}, "additionalProperties": False}, "x", "5"),
        ({"properties": {}, "additionalProperties": {"type": "integer"}}, "x", 5),
    ],
)
def test_a29_an_unlisted_parameter_is_a_string_unless_the_schema_says_otherwise(
    schema: Any, parameter: str, value: Any
) -> None:
    assert json.loads(ArgumentTypes(schema).to_json(parameter, "5")) == value


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "FALSE", False),
        ({"type": ["boolean", "null"]}, "false", False),
        ({"type": ["boolean", "null"]}, "null", None),
        ({"type": ["boolean", "null"]}, "None", None),
        ({"type": "integer", "nullable": True}, "null", None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", 7),
        ({"oneOf": [{"type": "array"}, {"type": "string"}]}, "[7]", [7]),
        ({"oneOf": [{"type": "array"}, {"type": "string"}]}, "[7", "[7"),
        ({"allOf": [{"type": "integer"}]}, "7", 7),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "None", "None"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, '"quoted"', '"quoted"'),
        ({"type": "integer", "anyOf": [{"type": "object"}]}, "{}", "{}"),
    ],
)
def test_a30_capitalized_booleans_and_unions_are_typed(schema: Any, text: str, value: Any) -> None:
    found = typed(schema, text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        ("integer", "2026-01-15"),
        ("integer", "-"),
        ("integer", ""),
        ("integer", "1.5"),
        ("integer", "true"),
        ("integer", "9" * 5000),
        ("number", "NaN"),
        ("number", "-Infinity"),
        ("number", ".5"),
        ("boolean", "maybe"),
        ("boolean", "1"),
        ("object", "{broken"),
        ("object", "[1]"),
        ("object", "{'a': True}"),
        ("object", '{"a": NaN}'),
        ("array", "{}"),
        ("array", "[" * 100_000),
        ("array", "[" * 300 + "]" * 300),
        ("null", "nothing"),
    ],
)
def test_a31_a_value_that_does_not_fit_is_kept_as_a_string(type_name: str, text: str) -> None:
    assert typed({"type": type_name}, text) == text


@pytest.mark.parametrize("text", ["1.50", "123456789012345678901234567890.125", "1e400", '{"a":"\\ud83d"}'])
def test_numbers_and_escapes_stand_as_the_model_wrote_them(text: str) -> None:
    types = ArgumentTypes({"properties": {"x": {"type": ["number", "object"]}}})
    assert types.to_json("x", text) == text


TREE = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"$ref": "#/$defs/tree"}, '{"children": []}', {"children": []}),
        ({"$ref": "#/properties/x/anyOf/1", "anyOf": [{"type": "string"}, {"type": "integer"}]}, "5", 5),
        ({"$ref": "#/$defs/a~1b"}, "5", 5),
        ({"$ref": "#/properties/x"}, "5", "5"),
        ({"$ref": "#/$defs/absent"}, "5", "5"),
        ({"$ref": "#/required/9"}, "5", "5"),
        ({"$ref": "https://example.org/s.json"}, "5", "5"),
        ({"anyOf": [{"$ref": "#/properties/x"}] * 50 + [{"type": "integer"}]}, "5", 5),
        ({"anyOf": [{"$ref": "#/$defs/loop"}, {"$ref": "#/$defs/loop"}]}, "5", "5"),
    ],
)
def test_a39_references_are_followed_within_the_schema_and_never_for_ever(schema: Any, text: str, value: Any) -> None:
    root = {
        "$defs": {
            "tree": TREE,
            "a/b": {"type": "integer"},
            "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, {"$ref": "#/properties/x"}]},
        },
        "properties": {"x": schema},
        "required": ["x"],
    }
    assert json.loads(ArgumentTypes(root).to_json("x", text)) == value


def test_a39_the_whole_schema_may_be_a_reference() -> None:
    root = {"$ref": "#/$defs/args", "$defs": {"args": {"properties": {"x": {"type": "integer"}}}}}
    assert ArgumentTypes(root).to_json("x", "5") == "5"


def test_deeply_nested_alternatives_are_no_trouble() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(5000):
        schema = {"anyOf": [schema]}
    assert typed(schema, "5") == 5


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["string", "null", "#/properties/x", "#"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "enum", "const", "anyOf", "oneOf", "$ref", "properties", "x", "items"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(ANY_JSON, st.text(max_size=8))
def test_whatever_the_schema_the_result_is_json(schema: Any, text: str) -> None:
    json.loads(ArgumentTypes(schema).to_json("x", text))
    json.loads(ArgumentTypes({"properties": {"x": schema}}).to_json("x", text))
