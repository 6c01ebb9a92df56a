"""Every limit on a request: as much is taken, one more is refused in a sentence, before the engine is asked."""

from __future__ import annotations

import base64
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from engine.grammar_schema import MAX_DEPTH as MAX_SCHEMA_DEPTH
from engine.grammar_schema import MAX_PARTS as MAX_SCHEMA_PARTS
from engine.grammar_schema import MAX_VALUES as MAX_SCHEMA_VALUES
from engine.tokenizer import MOST_BYTES_PER_TOKEN
from handler import limits
from handler.limits import (
    MAX_BIASES,
    MAX_BODY_BYTES,
    MAX_CALLS,
    MAX_COUNT,
    MAX_DEPTH,
    MAX_DESCRIPTION_CHARS,
    MAX_ID_CHARS,
    MAX_MESSAGES,
    MAX_METADATA,
    MAX_METADATA_CHARS,
    MAX_METADATA_KEY_CHARS,
    MAX_MODEL_CHARS,
    MAX_NAME_CHARS,
    MAX_PARTS,
    MAX_STOP_CHARS,
    MAX_STOPS,
    MAX_TEMPLATE_ARGUMENTS,
    MAX_TOOLS,
    MAX_VALUES,
)
from tests.handler.scripted import LambdaContext, ScriptedEngine, app_with, chat, post, url_event

SECURITY = (Path(__file__).parents[2] / "SECURITY.md").read_text()


def messages(n: int) -> Any:
    return {"messages": [{"role": "user", "content": "x"}] * n}


def parts(n: int) -> Any:
    return chat([{"type": "text", "text": "x"}] * n)


def made_call(**fields: Any) -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}} | fields


def calls(n: int) -> Any:
    made = {"role": "assistant", "tool_calls": [made_call()] * n}
    return {"messages": [made, {"role": "tool", "content": "1", "tool_call_id": "c"}]}


def call_id(n: int) -> Any:
    made = {"role": "assistant", "tool_calls": [made_call(id="i" * n)]}
    return {"messages": [made, {"role": "user", "content": "x"}]}


def result_id(n: int) -> Any:
    return {"messages": [{"role": "tool", "content": "1", "tool_call_id": "i" * n}]}


def tool(**function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", **function}}


def numbered(n: int) -> dict[str, int]:
    return {str(number): 1 for number in range(n)}


def nested(n: int) -> Any:
    """A body nested this deep: three levels are the tool's and what it is in."""
    value: Any = "x"
    for _ in range(n - 5):
        value = [value]
    return chat(tools=[tool(parameters={"enum": value})])


def values(n: int) -> Any:
    body = chat(ignored=[])
    own = 7  # the body, its three fields, the message and its two
    return body | {"ignored": [0] * (n - own)}


def body_of(n: int) -> str:
    text = json.dumps(chat(""))
    return text.replace('"content": ""', f'"content": "{"x" * (n - len(text))}"')


def schema(part: Any) -> Any:
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": part}}
    return chat(response_format=form)


def deep_schema(n: int) -> Any:
    part: dict[str, Any] = {}
    for _ in range(n):
        part = {"items": part}
    return schema(part)


SCHEMA = "response_format.json_schema.schema"
LIMITS: dict[str, tuple[Any, int, str | None]] = {
    "messages": (messages, MAX_MESSAGES, "messages"),
    "content parts": (parts, MAX_PARTS, "messages[0].content"),
    "calls of a message": (calls, MAX_CALLS, "messages[0].tool_calls"),
    "id of a call": (call_id, MAX_ID_CHARS, "messages[0].tool_calls[0].id"),
    "id of a result": (result_id, MAX_ID_CHARS, "messages[0].tool_call_id"),
    "tools": (lambda n: chat(tools=[tool()] * n), MAX_TOOLS, "tools"),
    "name of a tool": (lambda n: chat(tools=[tool(name="f" * n)]), MAX_NAME_CHARS, "tools[0].function.name"),
    "description of a tool": (
        lambda n: chat(tools=[tool(description="d" * n)]),
        MAX_DESCRIPTION_CHARS,
        "tools[0].function.description",
    ),
    "stop strings": (lambda n: chat(stop=["x"] * n), MAX_STOPS, "stop"),
    "length of a stop string": (lambda n: chat(stop=["y", "x" * n]), MAX_STOP_CHARS, "stop[1]"),
    "logit_bias": (lambda n: chat(logit_bias=numbered(n)), MAX_BIASES, "logit_bias"),
    "metadata": (lambda n: chat(metadata=dict.fromkeys(numbered(n), "x")), MAX_METADATA, "metadata"),
    "key of metadata": (lambda n: chat(metadata={"k" * n: "x"}), MAX_METADATA_KEY_CHARS, "metadata"),
    "value of metadata": (lambda n: chat(metadata={"k": "x" * n}), MAX_METADATA_CHARS, "metadata"),
    "template arguments": (
        lambda n: chat(chat_template_kwargs=numbered(n)),
        MAX_TEMPLATE_ARGUMENTS,
        "chat_template_kwargs",
    ),
    "model name": (lambda n: chat(model="qwarm".ljust(n, "-")), MAX_MODEL_CHARS, "model"),
    "max_tokens": (lambda n: chat(max_tokens=n), MAX_COUNT, "max_tokens"),
    "max_completion_tokens": (lambda n: chat(max_completion_tokens=n), MAX_COUNT, "max_completion_tokens"),
    "top_k": (lambda n: chat(top_k=n), MAX_COUNT, "top_k"),
    "thinking_budget": (lambda n: chat(thinking_budget=n), MAX_COUNT, "thinking_budget"),
    "seed": (lambda n: chat(seed=n), MAX_COUNT, "seed"),
    "nesting": (nested, MAX_DEPTH, None),
    "JSON values": (values, MAX_VALUES, None),
    "schema levels": (deep_schema, MAX_SCHEMA_DEPTH, SCHEMA),
    "schema parts": (lambda n: schema({"anyOf": [{}] * (n - 1)}), MAX_SCHEMA_PARTS, SCHEMA),
    "enumerated values": (lambda n: schema({"enum": list(range(n))}), MAX_SCHEMA_VALUES, SCHEMA),
    "required names": (lambda n: schema({"required": ["a"] * n}), MAX_SCHEMA_VALUES, SCHEMA),
}


@pytest.mark.parametrize(("body", "limit", "param"), LIMITS.values(), ids=LIMITS)
def test_as_much_as_the_limit_reaches_the_engine_and_one_more_does_not(
    body: Any, limit: int, param: str | None
) -> None:
    engine = ScriptedEngine()
    app = app_with(engine)
    status, answer = post(app, body(limit))
    assert status == 200, answer
    status, answer = post(app, body(limit + 1))
    error = answer["error"]
    assert (status, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert error["message"].endswith(".") and len(error["message"]) < 200
    assert len(engine.requests) == 1


@pytest.mark.parametrize("encoded", [False, True])
def test_a_body_as_large_as_the_limit_is_read_and_a_larger_one_is_413(encoded: bool) -> None:
    engine = ScriptedEngine()
    app = app_with(engine)
    for size, expected in ((MAX_BODY_BYTES, 200), (MAX_BODY_BYTES + 1, 413), (2 * MAX_BODY_BYTES, 413)):
        text = body_of(size)
        assert len(text) == size
        event = {"isBase64Encoded": encoded, "body": base64.b64encode(text.encode()).decode() if encoded else text}
        assert answer_to(app, event) == expected
    assert len(engine.requests) == 1


def answer_to(app: Any, changes: dict[str, Any]) -> int:
    return int(app.handle(url_event(chat()) | changes, LambdaContext())["statusCode"])


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ("1e999", "a number in it is too large"),
        ("-1e999", "a number in it is too large"),
        ("NaN", "NaN is not a JSON number"),
        ("-Infinity", "-Infinity is not a JSON number"),
        ("9" * 5000, "a number in it has too many digits"),
    ],
)
@pytest.mark.parametrize("place", ["max_tokens", "unknown", "temperature"])
def test_numbers_that_no_computer_counts_with_are_refused_wherever_they_are(place: str, number: str, said: str) -> None:
    status, answer = post(app_with(ScriptedEngine()), json.dumps(chat())[:-1] + f', "{place}": [{number}]}}')
    assert (status, answer["error"]["message"]) == (400, f"The body is not valid JSON: {said}.")


def test_equal_keys_are_refused_in_a_body_and_the_last_counts_in_what_a_model_wrote() -> None:
    engine = ScriptedEngine()
    app = app_with(engine)
    for text in ('{"messages": [], "messages": []}', '{"messages": [{"role": "user", "role": "system"}]}'):
        status, answer = post(app, text)
        assert (status, answer["error"]["code"]) == (400, "invalid_json")
        assert "the same key twice" in answer["error"]["message"]
    made = made_call(function={"name": "f", "arguments": '{"a": 1, "a": 2}'})
    assert post(app, {"messages": [{"role": "assistant", "tool_calls": [made]}, messages(1)["messages"][0]]})[0] == 200
    assert engine.requests[0].messages[0]["tool_calls"][0]["function"]["arguments"] == {"a": 2}


def test_the_documented_limits_are_these() -> None:
    documented = SECURITY.replace(",", "")
    numbers = {name: value for name, value in inspect.getmembers(limits) if name.startswith("MAX_")}
    assert len(numbers) == 19
    for name, value in numbers.items():
        shown = {MAX_BODY_BYTES: "6 MiB", MAX_COUNT: "2⁶³ − 1"}.get(value, str(value))
        assert f"| {shown} |" in documented, (name, shown)
    for value in (MAX_SCHEMA_DEPTH, MAX_SCHEMA_PARTS, MAX_SCHEMA_VALUES, MOST_BYTES_PER_TOKEN):
        assert f"| {value} |" in documented, value
