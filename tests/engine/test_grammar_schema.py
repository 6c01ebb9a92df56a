"""Schemas made fit for the grammar library: what is relaxed, and that it is as little as will do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.grammar_schema import MAX_DEPTH, Schema, SchemaTooLarge


def without(word: str) -> Any:
    """A library that takes any schema in which a word does not occur."""
    return lambda text: word not in text


def fitted(schema: Any, word: str) -> Schema:
    made = Schema(schema)
    made.fit(without(word))
    return made


def test_only_the_field_that_cannot_be_expressed_is_relaxed() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "pattern": "hard"},
            "b": {"type": "string", "pattern": "easy"},
            "c": {"items": {"type": "integer", "hard": 1, "enum": [1, 2]}},
        },
        "required": ["a"],
    }
    made = fitted(schema, "hard")
    assert made.root == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "string", "pattern": "easy"},
            "c": {"items": {"type": "integer", "enum": [1, 2]}},
        },
        "required": ["a"],
    }
    assert made.relaxed == ["/properties/a", "/properties/c/items"]


def test_one_of_becomes_any_of_where_it_has_to() -> None:
    made = fitted({"oneOf": [{"type": "string"}, {"type": "null"}]}, "oneOf")
    assert (made.root, made.relaxed) == ({"anyOf": [{"type": "string"}, {"type": "null"}]}, [""])


def test_what_is_shared_is_relaxed_once_and_references_stay() -> None:
    schema = {
        "$defs": {"x": {"type": "string", "pattern": "hard"}},
        "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/$defs/x"}},
    }
    made = fitted(schema, "hard")
    assert made.relaxed == ["/$defs/x"]
    assert made.resolved("/properties/b") == "/$defs/x"
    assert made.at("/$defs/x") == {"type": "string"}


def test_a_type_that_does_not_exist_leaves_any_value() -> None:
    assert fitted({"properties": {"a": {"type": "hard"}}}, "hard").root == {"properties": {"a": {}}}


def test_what_says_nothing_about_a_value_is_dropped_but_a_property_of_that_name_is_not() -> None:
    schema = {"$id": "https://example.org", "title": "T", "properties": {"title": {"default": 1}}, "x-guidance": {}}
    assert Schema(schema).root == {"properties": {"title": {}}}


def test_a_nullable_type_may_be_null() -> None:
    assert Schema({"type": "string", "nullable": True}).root == {"type": ["string", "null"]}


def test_references_are_told_by_their_place_in_the_text_that_is_compiled() -> None:
    made = Schema({"$defs": {"a/b": {"type": "integer"}}, "properties": {"p q": {"$ref": "#/$defs/a~1b"}}})
    text = json.loads(made.json("/properties/p q"))
    assert text["$ref"] == "#/$defs/root/properties/p%20q"
    assert text["$defs"]["root"]["properties"]["p q"]["$ref"] == "#/$defs/root/$defs/a~1b"
    assert "$defs" not in json.loads(made.json("/$defs/a~1b"))


@pytest.mark.parametrize("reference", ["#/nowhere", "https://example.org/s.json", "#anchor", 7, None])
def test_a39_references_out_or_to_nowhere_are_dropped_and_named(reference: Any) -> None:
    made = Schema({"properties": {"a": {"$ref": reference}}})
    assert (made.root, made.relaxed) == ({"properties": {"a": {}}}, ["/properties/a"])


def test_a39_references_in_a_circle_have_an_end() -> None:
    made = Schema({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})
    assert made.resolved("") in ("/$defs/a", "/$defs/b")


def test_depth_has_a_limit() -> None:
    schema: dict[str, Any] = {}
    for _ in range(MAX_DEPTH):
        schema = {"items": schema}
    Schema(schema)
    with pytest.raises(SchemaTooLarge, match="levels"):
        Schema({"items": schema})


def test_the_grammar_library_is_not_imported_before_it_is_needed() -> None:
    check = "import sys, engine.engine, handler.app; sys.exit('llguidance' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], cwd=Path(__file__).parents[2]).returncode == 0
