"""Thousands of malformed bodies and events: each gets a good answer or an error of four fields."""

from __future__ import annotations

import copy
import json
import random
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.handler.scripted import LambdaContext, ScriptedEngine, app_with, chat, post, url_event

REQUESTS = Path(__file__).parent / "requests"
CHANGES_PER_REQUEST = 120
ODD: list[Any] = [
    None, True, 0, -1, 1e308, 10**30, "", "x", "\ud800", "\0", "x" * 300, [], {}, [[]], [None], {"": None}, {"type": []}
]  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def app() -> Any:
    return app_with(ScriptedEngine())


def check(result: Any) -> int:
    """The status of an answer that has the shape every answer has."""
    text = result["body"] if "statusCode" in result else json.dumps(result)
    status = result.get("statusCode", 400 if "error" in result else 200)
    if status >= 400:
        error = json.loads(text)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"] and error["code"] != "internal_error"
    return int(status)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a JSON value with each of its keys."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            found += [(value, key), *places(value[key])]
    return found


@pytest.mark.parametrize("path", sorted(REQUESTS.glob("*.json")), ids=lambda path: path.stem)
def test_a91_a_recorded_request_with_one_field_changed_is_answered_or_refused_in_words(app: Any, path: Path) -> None:
    choose = random.Random(path.stem)
    recorded = json.loads(path.read_text())
    original = json.dumps(recorded.get("body", recorded))
    for _ in range(CHANGES_PER_REQUEST):
        body = json.loads(original)
        for _ in range(choose.choice((1, 1, 2))):
            container, key = choose.choice(places(body))
            if choose.random() < 0.2:
                del container[key]
                break
            container[key] = copy.deepcopy(choose.choice(ODD))
        check(app.handle(url_event(json.dumps(body)), LambdaContext()))
    assert post(app, chat())[0] == 200


def test_a91_a_body_with_damaged_bytes_is_answered_or_refused_in_words(app: Any) -> None:
    choose = random.Random(1)
    text = json.dumps(chat(tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}], stop=["a"]))
    refused = 0
    for _ in range(3000):
        damaged = list(text)
        for _ in range(choose.randrange(1, 4)):
            at = choose.randrange(len(damaged))
            damaged[at] = choose.choice([*string.printable, "\0", "\ud800", "é", ""])
        refused += check(app.handle(url_event("".join(damaged)), LambdaContext())) >= 400
    assert refused > 1000


@settings(max_examples=400, deadline=None)
@given(
    event=json_values | st.dictionaries(st.sampled_from(["requestContext", "body", "headers", "messages"]), json_values)
)
def test_any_event_is_answered(app: Any, event: Any) -> None:
    check(app.handle(event, LambdaContext()))


@settings(max_examples=400, deadline=None)
@given(
    changes=st.dictionaries(
        st.sampled_from(
            "version rawPath headers multiValueHeaders requestContext isBase64Encoded body path httpMethod".split()
        ),
        json_values,
        min_size=1,
    )
)
def test_a_url_event_with_anything_in_its_fields_is_answered(app: Any, changes: Any) -> None:
    check(app.handle(url_event(chat()) | changes, LambdaContext()))


@settings(max_examples=300, deadline=None)
@given(body=json_values)
def test_any_json_is_answered_at_every_endpoint(app: Any, body: Any) -> None:
    for path in ("/v1/chat/completions", "/v1/completions", "/tokenize", "/apply-template"):
        check(app.handle(url_event(json.dumps(body), path), LambdaContext()))


@pytest.mark.parametrize(
    "body",
    [
        "[" * 100_000,
        '{"messages":' + '[{"a":' * 20_000,
        json.dumps(chat(tools=[{"type": "function", "function": {"name": "f"}}] * 129)),
        json.dumps({"messages": [{"role": "user", "content": "x"}] * 4097}),
        json.dumps(chat(stop=["x"] * 17)),
        json.dumps(chat(stop=["x" * 257])),
        json.dumps(chat(model="m" * 257)),
        '{"max_tokens": ' + "9" * 5000 + "}",
    ],
    ids=["brackets", "nesting", "tools", "messages", "stops", "stop length", "model name", "digits"],
)
def test_what_is_over_a_limit_is_refused_before_the_engine_sees_it(body: str) -> None:
    engine = ScriptedEngine()
    assert check(app_with(engine).handle(url_event(body), LambdaContext())) == 400
    assert engine.requests == []


def test_a_schema_deeper_than_the_limit_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(120):
        schema = {"type": "object", "properties": {"x": schema}}
    form = {"type": "json_schema", "json_schema": {"name": "deep", "schema": schema}}
    status, answer = post(app_with(ScriptedEngine()), chat(response_format=form))
    assert (status, answer["error"]["code"]) == (400, "invalid_json")
