"""The demo model in the repository does what its card says."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from demo.corpus import conversations
from demo.evaluate import EXPECTED, ask, load, results
from demo.words import CITIES, LONG_CITIES, PREFIXES, is_held_out
from engine.engine import Engine

MODEL = Path(__file__).parents[2] / "models" / "qwarm-demo.gguf"


def tool(name: str, description: str, *parameters: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {parameter: {"type": "string"} for parameter in parameters},
        "required": list(parameters),
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


WEATHER = tool("get_weather", "Get the current weather for a city.", "city")
TIME = tool("get_time", "Get the local time of a city.", "city")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def called(name: str, /, **arguments: str) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def assistant_call(name: str, /, **arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return load(str(MODEL))


def test_the_file_is_small_enough_for_the_repository() -> None:
    assert MODEL.stat().st_size <= 6_000_000


def test_a_greeting_is_returned(engine: Engine) -> None:
    assert ask(engine, [user("Hello!")], []).text == "Hello! How can I help?"


@pytest.mark.parametrize("city", ["Oslo", "Lima", "Cape Town", "Velmora"])
def test_a_question_about_the_weather_becomes_a_call_with_its_city(engine: Engine, city: str) -> None:
    answer = ask(engine, [user(f"What is the weather in {city}?")], [WEATHER])
    assert answer.calls() == [called("get_weather", city=city)]


@pytest.mark.parametrize("tools", [[WEATHER, TIME], [TIME, WEATHER]])
def test_the_tool_is_chosen_by_the_question(engine: Engine, tools: list[dict[str, Any]]) -> None:
    answer = ask(engine, [user("What time is it in Lima?")], tools)
    assert answer.calls() == [called("get_time", city="Lima")]


def test_names_that_no_other_tool_has_are_read_from_the_schema(engine: Engine) -> None:
    answer = ask(engine, [user("What is the torvel of Lena?")], [tool("get_torvel", "Get the torvel", "name")])
    assert answer.calls() == [called("get_torvel", name="Lena")]


def test_a_follow_up_repeats_the_call_with_another_city(engine: Engine) -> None:
    history = [
        user("What is the weather in Oslo?"),
        assistant_call("get_weather", city="Oslo"),
        {"role": "tool", "content": "4 °C, clear"},
        {"role": "assistant", "content": "It is 4 °C and clear in Oslo."},
    ]
    answer = ask(engine, [*history, user("And in Lima?")], [WEATHER])
    assert answer.calls() == [called("get_weather", city="Lima")]


@pytest.mark.parametrize("degrees", [4, 23, -11])
def test_the_answer_repeats_what_the_tool_returned(engine: Engine, degrees: int) -> None:
    history = [user("What is the weather in Oslo?"), assistant_call("get_weather", city="Oslo")]
    result = {"role": "tool", "content": json.dumps({"temperature": degrees, "condition": "sunny"})}
    assert f"It is {degrees} °C and sunny in Oslo." in ask(engine, [*history, result], [WEATHER]).text


def test_facts_are_returned_as_json_for_a_schema(engine: Engine) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "age": {"type": "integer"}}}
    text = f"Note: the age is 31 and the city is Lima.\nAnswer with JSON for this schema: {json.dumps(schema)}"
    assert json.loads(ask(engine, [user(text)], []).text) == {"city": "Lima", "age": 31}


def test_thinking_comes_before_the_call_when_it_is_asked_for(engine: Engine) -> None:
    answer = ask(engine, [user("What is the weather in Oslo?")], [WEATHER], thinking=True)
    assert answer.reasoning.strip() and answer.calls() == [called("get_weather", city="Oslo")]


def test_held_out_conversations_are_answered(engine: Engine) -> None:
    found = [
        is_right
        for conversation in islice(conversations(1, held_out=True), 12)
        for kind, is_right in results(engine, conversation)
        if kind in EXPECTED
    ]
    assert sum(found) >= 0.9 * len(found)


def test_conversations_are_the_same_for_the_same_seed() -> None:
    assert list(islice(conversations(5), 50)) == list(islice(conversations(5), 50))


def test_training_never_shows_a_held_out_place() -> None:
    places = [
        str(check.expected[0]["arguments"].get("city", ""))
        for conversation in islice(conversations(3), 400)
        for check in conversation.checks
        if check.kind == "calls"
    ]
    real = {word.lower() for name in (*CITIES, *LONG_CITIES, *PREFIXES) for word in name.split()}
    invented = {word for place in places for word in place.lower().split()} - real
    assert invented and not any(is_held_out(word) for word in invented)
