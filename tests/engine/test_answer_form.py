"""What an answer is bound to: JSON for a schema, tool calls, and an end to thinking."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from jsonschema import validate
from random_answers import HI, answer, ask, random_engine

from engine.answer_form import AnswerForm
from engine.engine import Engine
from engine.errors import DeadEnd, InvalidPrompt
from engine.grammar import GrammarVocabulary
from engine.request import ChatRequest, ResponseFormat, Sampling, ToolChoice
from engine.tokenizer import Tokenizer

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "kind": {"enum": ["adult", "child", None]},
        "known": {"type": ["boolean", "null"]},
    },
    "required": ["name", "age", "kind"],
    "additionalProperties": False,
}
SCHEMAS = {
    "object": PERSON,
    "array": {"type": "array", "items": {"type": "number", "minimum": -5, "maximum": 5}, "minItems": 1, "maxItems": 3},
    "ai_sdk_integer": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "integer",
        "minimum": -9007199254740991,
        "maximum": 9007199254740991,
    },
    "tree": {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "value": {"type": "integer", "minimum": 0, "maximum": 9},
                    "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 1},
                },
                "required": ["value"],
                "additionalProperties": False,
            }
        },
    },
    "reference_into_any_of": {
        "type": "object",
        "properties": {
            "x": {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 0, "maximum": 99}]},
            "y": {"$ref": "#/properties/x/anyOf/1"},
            "a b%é": {"$ref": "#/properties/x"},
            "z": {"$ref": "#/properties/a%20b%25%C3%A9"},
        },
        "required": ["x", "y", "z"],
        "additionalProperties": False,
    },
    "strings": {
        "type": "object",
        "properties": {
            "day": {"type": "string", "format": "date"},
            "id": {"type": "string", "format": "uuid"},
            "digits": {"type": "string", "pattern": "^\\d{2,4}$"},
            "any_of_xyz": {"type": "string", "pattern": "[xyz]", "maxLength": 5},
        },
        "required": ["day", "id", "digits", "any_of_xyz"],
        "additionalProperties": False,
    },
}
TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "find",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "maxLength": 9}, "limit": {"enum": [5, 10]}},
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "now"}},
)
FIND = ToolChoice("named", "find")
CLOSING = "\n</think>\n\n"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return random_engine(tmp_path_factory.mktemp("random"))


@pytest.fixture(scope="module")
def vocabulary(engine: Engine) -> GrammarVocabulary:
    return GrammarVocabulary(engine.tokenizer)


def bound(schema: object, strict: bool = True) -> ResponseFormat:
    return ResponseFormat(schema, strict)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("thinking", [True, False])
def test_a40_an_answer_is_json_for_its_schema_whatever_the_model(engine: Engine, name: str, thinking: bool) -> None:
    options = {"response_format": bound(SCHEMAS[name]), "thinking": thinking, "thinking_budget": 4}
    for seed in range(6):
        said = answer(engine, ask(seed, **options))
        validate(json.loads(said.text), SCHEMAS[name])
        assert (said.end.reason, said.end.cause, said.end.relaxed) == ("stop", "eos", ())
        assert bool(said.reasoning) == thinking
        assert said.text == said.text.strip()


def test_a40_a_json_object_is_one_also_at_temperature_zero(engine: Engine) -> None:
    request = ask(temperature=0, max_tokens=60, response_format=bound({"type": "object"}, strict=False))
    said = answer(engine, request)
    assert said.text.startswith("{")
    assert said.end.reason == "length" or isinstance(json.loads(said.text), dict)
    assert answer(engine, request).text == said.text


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"type": "string", "pattern": "(?=a)b"}, "regex"),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.org/s.json"}}}, "/properties/a"),
        ({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}, "/properties/a"),
        ({"type": "array", "items": {}, "uniqueItems": True}, "uniqueItems"),
        ({"enum": []}, "Unsatisfiable"),
        ({"not": {"type": "null"}}, "not"),
    ],
)
def test_a40_strict_is_refused_where_it_cannot_be_kept_and_relaxed_where_it_is_not_strict(
    vocabulary: GrammarVocabulary, schema: object, found: str
) -> None:
    with pytest.raises(InvalidPrompt, match=found) as caught:
        AnswerForm(ChatRequest(HI, response_format=bound(schema)), False, vocabulary)
    assert caught.value.param == "response_format.json_schema.schema"
    form = AnswerForm(ChatRequest(HI, response_format=bound(schema, strict=False)), False, vocabulary)
    assert len(form.relaxed) == 1


def test_a39_hostile_schemas_are_refused_soon(vocabulary: GrammarVocabulary) -> None:
    deep: object = {"type": "integer"}
    for _ in range(300):
        deep = {"type": "array", "items": deep}
    wide = {"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(5000)}}
    for schema in (deep, wide):
        with pytest.raises(InvalidPrompt, match="levels or"):
            AnswerForm(ChatRequest(HI, response_format=bound(schema, strict=False)), False, vocabulary)


def test_a39_a_schema_without_an_end_ends_the_request(engine: Engine) -> None:
    endless = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    with pytest.raises(DeadEnd):
        answer(engine, ask(response_format=bound(endless)))


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("choice", [ToolChoice("required"), FIND, ToolChoice("named", "now")])
def test_a37_a_forced_call_is_made(engine: Engine, choice: ToolChoice, thinking: bool) -> None:
    for seed in range(4):
        options = {"tools": TOOLS, "tool_choice": choice, "thinking": thinking, "thinking_budget": 4}
        said = answer(engine, ask(seed, **options))
        assert (said.end.reason, said.text) == ("tool_calls", "")
        names = {name for name, _ in said.calls}
        assert names == {choice.name} if choice.name else names <= {"find", "now"} != set()


def test_a37_none_never_gives_a_call(engine: Engine) -> None:
    spelled = engine.tokenizer.specials["<tool_call>"]
    request = ask(max_tokens=5, tools=TOOLS, tool_choice=ToolChoice("none"), logit_bias={spelled: 100})
    said = answer(engine, request)
    assert (said.calls, said.text, said.end.reason) == ([], "<tool_call>" * 5, "length")


def test_one_call_ends_the_answer_without_parallel_calls(engine: Engine) -> None:
    said = answer(engine, ask(tools=TOOLS, tool_choice=FIND, parallel_tool_calls=False))
    assert (len(said.calls), said.end.cause) == (1, "one_tool_call")


def test_a_schema_and_tools_give_either(engine: Engine) -> None:
    kinds = set()
    for seed in range(12):
        said = answer(engine, ask(seed, tools=TOOLS, response_format=bound(PERSON)))
        assert bool(said.calls) != bool(said.text)
        if said.text:
            validate(json.loads(said.text), PERSON)
        kinds.add(said.end.reason)
    assert kinds == {"stop", "tool_calls"}


def test_a41_an_opened_call_is_of_a_declared_tool_and_the_answer_is_free_after_it(engine: Engine) -> None:
    vocabulary = GrammarVocabulary(engine.tokenizer)
    form = AnswerForm(ask(tools=TOOLS), False, vocabulary)
    specials = engine.tokenizer.specials
    assert form.allowed() is None
    form.accept(specials["<tool_call>"], reasoning=False)
    text = "\n<function=now>\n</function>\n"
    ids = [*engine.tokenizer.encode(text), specials["</tool_call>"]]
    stops = sorted(engine.tokenizer.stop_ids)
    allowed = form.allowed()
    assert allowed is not None
    assert allowed[stops].all()
    assert allowed[ids[0]]
    for token, following in pairwise(ids):
        form.accept(token, reasoning=False)
        forced = form.forced()
        allowed = None if forced is not None else form.allowed()
        assert forced == following or (allowed is not None and allowed[following] and not allowed[stops].any())
    form.accept(ids[-1], reasoning=False)
    assert (form.forced(), form.allowed()) == (None, None)


def test_a29_a_call_that_the_model_makes_of_itself_is_typed_by_its_tool(engine: Engine) -> None:
    bias = {engine.tokenizer.specials["<tool_call>"]: 100, **dict.fromkeys(engine.tokenizer.stop_ids, -100)}
    for seed in range(4):
        said = answer(engine, ask(seed, tools=TOOLS[:1], logit_bias=bias, parallel_tool_calls=False))
        assert (said.end.reason, len(said.calls), said.text) == ("tool_calls", 1, "")
        name, arguments = said.calls[0]
        assert name == "find"
        validate(arguments, TOOLS[0]["function"]["parameters"])


def test_a33_an_opening_marker_alone_may_end_the_answer(engine: Engine) -> None:
    bias = {engine.tokenizer.specials["<tool_call>"]: 100, **dict.fromkeys(engine.tokenizer.encode("\n"), -100)}
    said = answer(engine, ask(tools=TOOLS, logit_bias=bias))
    assert (said.text, said.calls, said.end.reason) == ("<tool_call>", [], "stop")


def test_thinking_is_closed_when_its_budget_is_used_up(engine: Engine) -> None:
    closing = engine.tokenizer.encode_with_specials(CLOSING)
    for budget in (0, 1, 7):
        said = answer(engine, ask(max_tokens=budget + len(closing) + 3, thinking=True, thinking_budget=budget))
        assert said.end.reasoning_tokens == budget + closing.index(engine.tokenizer.specials["</think>"]) + 1
        assert said.end.completion_tokens == budget + len(closing) + 3
        assert "</think>" not in said.reasoning + said.text
        assert bool(said.reasoning) == (budget > 0)


def test_thinking_without_a_budget_goes_on(engine: Engine) -> None:
    said = answer(engine, ask(max_tokens=40, thinking=True))
    assert (said.end.reasoning_tokens, said.text) == (40, "")


def test_what_follows_the_think_block_within_a_token_is_part_of_the_form(vocabulary: GrammarVocabulary) -> None:
    tokens = vocabulary.tokenizer.every_token()
    form = AnswerForm(ChatRequest(HI, response_format=bound({"type": "object"})), True, vocabulary)
    form.accept(tokens.index(b">{"), reasoning=False)
    allowed = form.allowed()
    assert allowed is not None
    assert (allowed[tokens.index(b"}")], allowed[tokens.index(b"{")]) == (True, False)
    form = AnswerForm(ChatRequest(HI, response_format=bound({"type": "object"})), True, vocabulary)
    with pytest.raises(DeadEnd):
        form.accept(tokens.index(b">&"), reasoning=False)


def test_bias_against_all_that_the_form_allows_is_said(engine: Engine) -> None:
    banned = {id_: -100.0 for id_, data in enumerate(engine.tokenizer.every_token()) if data[:1] == b"4"}
    with pytest.raises(DeadEnd, match="logit_bias"):
        answer(engine, ask(response_format=bound({"const": 4}), logit_bias=banned))


def test_bias_chooses_among_what_the_form_allows(engine: Engine) -> None:
    wanted = engine.tokenizer.encode("7")[0]
    said = answer(engine, ask(response_format=bound({"enum": [4, 7]}), logit_bias={wanted: 100, 5: 100}))
    assert said.text == "7"


def test_a_form_is_kept_with_a_vocabulary_of_512_tokens(tiny: Tokenizer) -> None:
    vocabulary = GrammarVocabulary(tiny)
    random = np.random.default_rng(3)
    form = AnswerForm(ChatRequest(HI, response_format=bound(PERSON), sampling=Sampling()), False, vocabulary)

    def tokens() -> Iterator[int]:
        while True:
            token, allowed = form.forced(), None
            if token is None:
                allowed = form.allowed()
                assert allowed is not None
                token = int(random.choice(np.flatnonzero(allowed)))
            if token in tiny.stop_ids:
                return
            form.accept(token, reasoning=False)
            yield token

    validate(json.loads(b"".join(map(tiny.decode_bytes, tokens()))), PERSON)
