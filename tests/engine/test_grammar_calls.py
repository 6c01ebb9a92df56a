"""The grammar of tool calls: typed by the tools' schemas, and read back by the parser of calls as it was meant."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from jsonschema import validate

from engine.answer_form import AnswerForm
from engine.events import ToolArguments
from engine.grammar import GrammarVocabulary
from engine.request import ChatRequest, ToolChoice
from engine.text_stream import Utf8Stream
from engine.tokenizer import Tokenizer
from engine.tool_calls import ToolCallParser

TYPED: dict[str, Any] = {
    "type": "object",
    "$defs": {
        "Color": {"enum": ["red", "green"]},
        "Tree": {
            "type": "object",
            "properties": {"v": {"type": "integer", "maximum": 9, "minimum": 0}, "kid": {"$ref": "#/$defs/Tree"}},
            "required": ["v"],
            "additionalProperties": False,
        },
    },
    "properties": {
        "path": {"type": "string", "maxLength": 9},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
        "ratio": {"type": "number", "minimum": 0, "maximum": 1},
        "sure": {"type": "boolean"},
        "object": {
            "type": "object",
            "properties": {"x": {"type": "string", "maxLength": 5}},
            "required": ["x"],
            "additionalProperties": False,
        },
        "list": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
        "word": {"type": "string", "enum": ["one", "two\nlines", "", " spaced "]},
        "color": {"$ref": "#/$defs/Color"},
        "perhaps_color": {"anyOf": [{"$ref": "#/$defs/Color"}, {"type": "null"}]},
        "same_color": {"allOf": [{"$ref": "#/$defs/Color"}]},
        "tree": {"$ref": "#/$defs/Tree"},
        "perhaps": {"type": ["boolean", "null"]},
        "one_of_two": {"type": "integer", "enum": [1, 22]},
        "pattern": {"type": "string", "pattern": "^\\d{2}/x$"},
        "grouped": {"type": "string", "pattern": "^(a|b)$"},
        "seven": {"const": 7},
        "length": {"type": "string", "minLength": 3, "maxLength": 6},
    },
    "additionalProperties": False,
}


def tool(parameters: object, name: str = "f") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def form_of(vocabulary: GrammarVocabulary, *tools: dict[str, Any]) -> AnswerForm:
    request = ChatRequest((), tools=tools, tool_choice=ToolChoice("required"), parallel_tool_calls=False)
    return AnswerForm(request, False, vocabulary)


def random_call(vocabulary: GrammarVocabulary, declared: dict[str, Any], seed: int) -> Any:
    """The arguments of a call in which every choice that the grammar leaves is made at random."""
    random = np.random.default_rng(seed)
    tokenizer = vocabulary.tokenizer
    form, parser, utf8 = form_of(vocabulary, declared), ToolCallParser((declared,)), Utf8Stream()
    events = []
    while not parser.completed_calls:
        token = form.forced()
        if token is None:
            allowed = form.allowed()
            assert allowed is not None
            token = int(random.choice(np.flatnonzero(allowed)))
        form.accept(token, reasoning=False)
        events += parser.feed(utf8.feed(tokenizer.decode_bytes(token)))
    return json.loads("".join(event.json for event in events if isinstance(event, ToolArguments)))


def takes(vocabulary: GrammarVocabulary, declared: dict[str, Any], text: str) -> bool:
    """Whether a call is possible, its special tokens as the tokenizer has them."""
    form, tokenizer = form_of(vocabulary, declared), vocabulary.tokenizer
    for token in tokenizer.encode_with_specials(text):
        forced = form.forced()
        allowed = form.allowed() if forced is None else None
        if not (forced == token if allowed is None else allowed[token]):
            return False
        form.accept(token, reasoning=False)
    return True


def call(*values: tuple[str, str], name: str = "f") -> str:
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values)
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


@pytest.fixture(scope="module")
def vocabulary(tiny: Tokenizer) -> GrammarVocabulary:
    return GrammarVocabulary(tiny)


@pytest.mark.parametrize("key", TYPED["properties"])
def test_a29_an_argument_has_its_schemas_type_whatever_the_model(vocabulary: GrammarVocabulary, key: str) -> None:
    schema = {**TYPED, "properties": {key: TYPED["properties"][key]}, "required": [key]}
    for seed in range(3):
        arguments = random_call(vocabulary, tool(schema), seed)
        validate(arguments, schema)


def test_required_arguments_are_there_and_all_in_the_schemas_order(vocabulary: GrammarVocabulary) -> None:
    schema = {**TYPED, "required": ["count", "word", "seven"]}
    for seed in range(8):
        arguments = random_call(vocabulary, tool(schema), seed)
        validate(arguments, schema)
        assert list(arguments) == [key for key in schema["properties"] if key in arguments]


def test_a27_a_string_may_hold_closing_markers_that_do_not_close(vocabulary: GrammarVocabulary) -> None:
    declared = tool({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
    inside = ("ends with </tool_call> and </parameter> here.", "</tool_call>", "<tool_call>", "a\n\n  b\n", "")
    for text in inside:
        assert takes(vocabulary, declared, call(("text", text)))
    assert not takes(vocabulary, declared, call(("text", "a\n</parameter>\nb")))
    assert not takes(vocabulary, declared, call(("text", "</parameter>\n</function>\nb")))


def test_a34_a_tool_without_parameters_is_called_without_any(vocabulary: GrammarVocabulary) -> None:
    for declared in (tool(None), tool({}), tool({"type": "object", "properties": {}})):
        assert takes(vocabulary, declared, call())
        assert not takes(vocabulary, declared, call(("x", "1")))


def test_only_declared_tools_and_parameters_can_be_named(vocabulary: GrammarVocabulary) -> None:
    declared = tool({"properties": {"a": {"type": "integer"}}})
    assert takes(vocabulary, declared, call(("a", "5")))
    assert not takes(vocabulary, declared, call(("b", "5")))
    assert not takes(vocabulary, declared, call(("a", "five")))
    assert not takes(vocabulary, declared, call(name="toolbox.web.answer"))


def test_a_map_takes_keys_that_are_not_listed(vocabulary: GrammarVocabulary) -> None:
    declared = tool({"properties": {"a": {"type": "boolean"}}, "additionalProperties": {"type": "integer"}})
    assert takes(vocabulary, declared, call(("a", "true"), ("b", "5"), ("other", "6")))
    assert not takes(vocabulary, declared, call(("b", "true")))
    assert takes(vocabulary, tool({"additionalProperties": True}), call(("b", "anything\n")))


def test_a38_ordinary_schemas_are_taken_and_what_is_relaxed_is_named(vocabulary: GrammarVocabulary) -> None:
    odd = {
        "digits": {"type": "string", "pattern": "^\\d+$"},
        "unanchored": {"type": "string", "pattern": "\\S"},
        "nested": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}},
        "id": {"type": "string", "format": "uuid"},
        "ahead": {"type": "string", "pattern": "(?=a)b"},
        "inner": {
            "type": "object",
            "properties": {"z": {"type": "string", "format": "nope"}, "w": {"type": "integer"}},
        },
    }
    tools = [tool({"type": "object", "properties": odd}, f"tool_{n}") for n in range(2)]
    tools += [tool({"type": "object", "properties": {"x": {"type": "integer"}}}, f"plain_{n}") for n in range(48)]
    without = {"type": "function", "function": {"name": "without"}}
    form = form_of(vocabulary, *tools, without)
    assert form.relaxed == tuple(
        f"tool_{n}/properties/{place}" for n in range(2) for place in ("ahead", "inner/properties/z", "id")
    )
    other = tool({"type": "object", "properties": odd})
    assert takes(vocabulary, other, call(("digits", "12"), ("inner", '{"z": "any", "w": 5}')))
    assert not takes(vocabulary, other, call(("digits", "12a")))
    assert not takes(vocabulary, other, call(("inner", '{"z": "any", "w": "5"}')))


def test_a39_a_reference_into_an_alternative_types_an_argument(vocabulary: GrammarVocabulary) -> None:
    properties = {"x": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "y": {"$ref": "#/properties/x/anyOf/1"}}
    declared = tool({"type": "object", "properties": properties, "required": ["y"]})
    assert takes(vocabulary, declared, call(("x", "any text"), ("y", "5")))
    assert not takes(vocabulary, declared, call(("y", "any text")))


def test_a39_references_that_lead_nowhere_leave_an_argument_untyped(vocabulary: GrammarVocabulary) -> None:
    for reference in ("https://example.org/s.json", "#/nowhere", "other.json#/a", 7):
        declared = tool({"type": "object", "properties": {"x": {"$ref": reference}}})
        assert form_of(vocabulary, declared).relaxed == ("f/properties/x",)
        assert takes(vocabulary, declared, call(("x", "any text")))


def test_a39_a_schema_over_the_limits_leaves_its_tool_untyped_and_the_others_typed(
    vocabulary: GrammarVocabulary,
) -> None:
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    tools = (tool({"properties": {"x": deep}}, "deep"), tool({"properties": {"n": {"type": "integer"}}}))
    form = form_of(vocabulary, *tools)
    assert form.relaxed == ("deep",)
    assert takes(vocabulary, tools[0], call(("x", "[[1]]"), name="deep"))
    assert not takes(vocabulary, tools[1], call(("n", "x")))


def test_a_value_of_many_is_one_of_them(vocabulary: GrammarVocabulary) -> None:
    declared = tool({"properties": {"x": {"enum": [f"value{n}" for n in range(3000)]}}, "required": ["x"]})
    assert takes(vocabulary, declared, call(("x", "value2999")))
    assert not takes(vocabulary, declared, call(("x", "value3000")))


def test_what_a_union_with_a_string_asks_for_is_relaxed_and_named(vocabulary: GrammarVocabulary) -> None:
    short = {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}
    plain = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    declared = tool({"properties": {"short": short, "plain": plain}})
    assert form_of(vocabulary, declared).relaxed == ("f/properties/short",)
    assert takes(vocabulary, declared, call(("short", "longer"), ("plain", "null")))
