"""Forms that clients ask for, their thinking budgets, and what the engine makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.answer_form import AnswerForm
from engine.grammar import GrammarVocabulary
from engine.model_file import ModelFile
from engine.request import ResponseFormat
from engine.tokenizer import Tokenizer
from handler.errors import BadRequest
from handler.request import read_request
from tests.handler.scripted import ScriptedEngine, app_with, chat, finished, post, prefilled

REQUESTS = Path(__file__).parent / "requests"
FORMED = sorted(
    path for path in REQUESTS.glob("*.json") if {"response_format", "tool_choice"} & set(json.loads(path.read_text()))
)
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def refused(**fields: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        read_request(chat(**fields)).for_engine(splice=True)
    return caught.value


def asked_format(wanted: Any) -> ResponseFormat | None:
    return read_request(chat(response_format=wanted)).for_engine(splice=True).response_format


@pytest.fixture(scope="module")
def vocabulary(oracle: Path) -> GrammarVocabulary:
    with ModelFile(oracle / "eq.f32.gguf") as file:
        return GrammarVocabulary(Tokenizer(file))


@pytest.mark.parametrize("path", FORMED, ids=lambda path: path.stem)
def test_a38_the_forms_that_clients_send_are_enforced_in_full(path: Path, vocabulary: GrammarVocabulary) -> None:
    asked = read_request(json.loads(path.read_text())).for_engine(splice=True)
    for thinking in (True, False):
        assert AnswerForm(asked, thinking, vocabulary).relaxed == ()


def test_there_are_recorded_requests_of_every_form() -> None:
    bodies = [json.loads(path.read_text()) for path in FORMED]
    formats = {body["response_format"]["type"] for body in bodies if "response_format" in body}
    choices = {type(body["tool_choice"]) for body in bodies if body.get("tool_choice", "auto") != "auto"}
    assert (formats, choices) == ({"json_object", "json_schema"}, {str, dict})


def test_a40_formats_are_what_they_say() -> None:
    described = {"name": "s", "schema": SCHEMA}
    assert asked_format({"type": "text"}) is None
    assert asked_format({"type": "json_object"}) == ResponseFormat({"type": "object"})
    assert asked_format({"type": "json_schema", "json_schema": described}) == ResponseFormat(SCHEMA)
    for strict in (True, False, None):
        wanted = {"type": "json_schema", "json_schema": {**described, "strict": strict}}
        assert asked_format(wanted) == ResponseFormat(SCHEMA, strict is True)


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        ("json_object", "response_format"),
        ({}, "response_format"),
        ({"type": "grammar", "grammar": "x"}, "response_format"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {"name": "s"}}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {"schema": "{}"}}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {"schema": {}, "strict": 1}}, "response_format.json_schema.strict"),
        ({"type": "json_schema", "json_schema": {"schema": {}, "name": 1}}, "response_format.json_schema.name"),
    ],
)
def test_a40_a_format_that_is_unknown_or_incomplete_is_refused(wanted: Any, param: str) -> None:
    assert refused(response_format=wanted).param == param


@pytest.mark.parametrize(
    "fields", [{"response_format": {"type": "json_object"}}, {"tools": [TOOL], "tool_choice": "required"}]
)
def test_a_begun_answer_cannot_be_bound_from_its_beginning(fields: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "{"}]
    chat_request = read_request({"messages": messages, "continue_final_message": True, **fields})
    with pytest.raises(BadRequest) as caught:
        chat_request.for_engine(splice=True)
    assert caught.value.param == "continue_final_message"


@pytest.mark.parametrize(
    ("fields", "budget"),
    [
        ({}, None),
        ({"reasoning_effort": "low"}, 512),
        ({"reasoning_effort": "medium"}, 2048),
        ({"reasoning_effort": "high"}, 8192),
        ({"reasoning_effort": "max"}, None),
        ({"reasoning_effort": "none"}, None),
        ({"reasoning_effort": "low", "thinking_budget": 7}, 7),
        ({"reasoning_effort": "low", "thinking_budget": -1}, None),
        ({"reasoning_budget_tokens": 0}, 0),
    ],
)
def test_a24_thinking_has_the_budget_that_is_said_or_that_its_effort_means(
    fields: dict[str, Any], budget: int | None
) -> None:
    assert read_request(chat(**fields)).for_engine(splice=True).thinking_budget == budget


@pytest.mark.parametrize("budget", [-2, 1.5, "7"])
def test_a_thinking_budget_is_a_number_of_tokens(budget: Any) -> None:
    assert refused(thinking_budget=budget).param == "thinking_budget"


def test_a38_what_was_relaxed_is_logged_once(records: Callable[[str], list[dict[str, Any]]]) -> None:
    places = tuple(f"f/properties/p{n}" for n in range(30))
    app = app_with(ScriptedEngine([prefilled(), finished(relaxed=places)], [prefilled(), finished()]))
    for _ in range(2):
        assert post(app, chat())[0] == 200
    assert [line.get("relaxed") for line in records("completion")] == [list(places[:20]), None]
