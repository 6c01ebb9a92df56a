"""Schemas that crash the grammar library, or hold it up: they are relaxed, or refused in words."""

from __future__ import annotations

from typing import Any

import pytest

from engine.answer_form import AnswerForm
from engine.errors import DeadEnd, InvalidPrompt
from engine.grammar import GrammarVocabulary
from engine.grammar_limits import MAX_COMBINED, MAX_MODULUS, MAX_NUMBER
from engine.grammar_schema import MAX_VALUES, Schema, SchemaTooLarge
from engine.request import ChatRequest, ResponseFormat, ToolChoice
from engine.tokenizer import Tokenizer

INT64 = 2**63
ACCENTS = "é" * 60  # the library cuts what it quotes at a byte, and panics in the middle of a character
PATTERNS = [{"type": "string", "pattern": f".*a{n}.*"} for n in range(60)]
HOSTILE: list[dict[str, Any]] = [
    {"const": -INT64},
    {"enum": ["a", {"b": [-INT64]}]},
    {"type": "integer", "minimum": -INT64, "maximum": -INT64},
    {"type": "integer", "minimum": -1e300, "maximum": 1 - INT64},
    {"allOf": [{"const": -1e19}, {"type": "integer"}]},
    {"minimum": ACCENTS},
    {"type": "string", "pattern": ACCENTS, "minLength": ACCENTS},
    {"multipleOf": True, "minimum": []},
    {"allOf": PATTERNS},
    {**PATTERNS[0], "anyOf": PATTERNS[1:]},
    {
        "$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}", **part} for n, part in enumerate(PATTERNS)},
        "$ref": "#/$defs/d0",
    },
    {"type": "integer", "multipleOf": 1_000_003},
    {"allOf": [{"multipleOf": prime} for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)]},
    {"$defs": -1, "definitions": 1.5, "oneOf": [{}]},
    {"type": "string", "pattern": "(" * 100_000},
    {"type": "string", "pattern": "(a|" * 1000 + "b" + ")" * 1000},
    {"type": "string", "pattern": "(((a{100}){100}){100}){100}"},
    {"type": "array", "minItems": 10**9},
    {"type": "string", "minLength": 10**9},
    {"$ref": "#"},
    {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
]


@pytest.fixture(scope="module")
def vocabulary(tiny: Tokenizer) -> GrammarVocabulary:
    return GrammarVocabulary(tiny)


def relaxed(schema: dict[str, Any]) -> list[str]:
    return Schema(schema).relaxed


@pytest.mark.parametrize("schema", HOSTILE, ids=lambda schema: str(schema)[:40])
@pytest.mark.parametrize("strict", [False, True])
def test_a_hostile_schema_of_an_answer_is_relaxed_or_refused(
    vocabulary: GrammarVocabulary, schema: dict[str, Any], strict: bool
) -> None:
    sentence = ""
    try:
        AnswerForm(ChatRequest((), response_format=ResponseFormat(schema, strict)), False, vocabulary).allowed()
    except (InvalidPrompt, DeadEnd) as refusal:
        sentence = str(refusal)
    assert "panic" not in sentence and ACCENTS[:9] not in sentence and len(sentence) < 400


@pytest.mark.parametrize("schema", HOSTILE, ids=lambda schema: str(schema)[:40])
def test_a_hostile_schema_of_a_tool_costs_only_its_own_enforcement(
    vocabulary: GrammarVocabulary, schema: dict[str, Any]
) -> None:
    function = {"name": "f", "parameters": {"type": "object", "properties": {"x": schema}, "required": ["x"]}}
    tools = ({"type": "function", "function": function},)
    form = AnswerForm(ChatRequest((), tools=tools, tool_choice=ToolChoice("required")), False, vocabulary)
    forced = form.forced()
    assert forced is not None or form.allowed() is not None


def test_a_number_up_to_the_limit_is_kept_and_one_beyond_is_not() -> None:
    for number in (MAX_NUMBER, -MAX_NUMBER):
        assert relaxed({"properties": {"n": {"minimum": number, "enum": [[number]]}}}) == []
        assert relaxed({"properties": {"n": {"minimum": number * 2}}}) == ["/properties/n"]
        assert relaxed({"properties": {"n": {"const": {"a": [number * 2]}}}}) == ["/properties/n"]


def test_as_many_patterns_as_may_meet_are_kept() -> None:
    assert relaxed({"allOf": PATTERNS[:MAX_COMBINED]}) == []
    assert relaxed({"allOf": PATTERNS[: MAX_COMBINED + 1]}) == [f"/allOf/{MAX_COMBINED}"]
    assert relaxed({"properties": {f"p{n}": part for n, part in enumerate(PATTERNS)}}) == []


def test_a_divisor_up_to_the_limit_is_kept_and_zeros_at_its_ends_do_not_count() -> None:
    for kept in (MAX_MODULUS - 1, 0.01, 1e9, 0.25, -1, "x", True):
        assert relaxed({"multipleOf": kept}) == []
    assert relaxed({"multipleOf": MAX_MODULUS + 1}) == [""]
    assert relaxed({"properties": {f"p{n}": {"multipleOf": n} for n in (7, 11, 13, 17, 19)}}) == []
    assert relaxed({"allOf": [{"multipleOf": n} for n in (7, 11, 13, 17, 19)]}) == ["/allOf/3", "/allOf/4"]


@pytest.mark.parametrize("name", ["enum", "required"])
def test_as_many_values_as_the_limit_are_taken_and_no_more(name: str) -> None:
    values = [f"v{n}" for n in range(MAX_VALUES)]
    assert relaxed({name: values}) == []
    for schema in ({name: [*values, "w"]}, {"properties": {"a": {name: values}, "b": {name: ["w"]}}}):
        with pytest.raises(SchemaTooLarge, match=f"more than {MAX_VALUES} values"):
            Schema(schema)
