"""The events in events/: each is answered as its name says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handler.event import http_request
from tests.handler.scripted import LambdaContext, ScriptedEngine, app_with

EVENTS = Path(__file__).parents[2] / "events"
STATUS = {
    "alb": 200,
    "apigw_v1": 200,
    "apigw_v2": 200,
    "bad_json": 400,
    "base64": 200,
    "chat_plain": 200,
    "chat_second_turn": 200,
    "chat_stream": 200,
    "chat_tool_result": 200,
    "chat_tools": 200,
    "health": 200,
    "image": 400,
    "models": 200,
    "no_auth": 401,
    "preflight": 204,
}
NOT_HTTP = {"direct", "schedule", "warmup"}


def event(name: str) -> Any:
    return json.loads((EVENTS / f"{name}.json").read_text())


def body(name: str) -> Any:
    return json.loads(event(name)["body"])


def test_every_event_is_known_here() -> None:
    assert {path.stem for path in EVENTS.glob("*.json")} == STATUS.keys() | NOT_HTTP


@pytest.mark.parametrize(("name", "status"), STATUS.items())
def test_an_http_event_is_answered_with_its_status(name: str, status: int) -> None:
    result = app_with(ScriptedEngine()).handle(event(name), LambdaContext())
    assert result["statusCode"] == status, result["body"]


def test_events_without_http_are_answered_with_an_object() -> None:
    app = app_with(ScriptedEngine())
    assert app.handle(event("direct"), LambdaContext())["choices"][0]["message"]["content"] == "Hello world"
    assert app.handle(event("schedule"), LambdaContext())["warm"] is True
    assert app.handle(event("warmup"), LambdaContext())["warm"] is True


def test_the_image_is_refused_by_its_place() -> None:
    result = app_with(ScriptedEngine()).handle(event("image"), LambdaContext())
    error = json.loads(result["body"])["error"]
    assert (error["param"], error["code"]) == ("messages[1].content[1]", "unsupported_content_type")


def test_the_events_with_tools_are_one_conversation() -> None:
    first, step, second = body("chat_tools"), body("chat_tool_result"), body("chat_second_turn")
    roles = ["system", "user", "assistant", "tool", "assistant", "user"]
    assert [message["role"] for message in second["messages"]] == roles
    assert first["messages"] == second["messages"][:2] and step["messages"] == second["messages"][:4]
    assert first["tools"] == step["tools"] == second["tools"]


def test_every_shape_of_http_event_is_the_same_request() -> None:
    requests = [http_request(event(name)) for name in ("chat_plain", "base64", "apigw_v1", "apigw_v2", "alb")]
    assert {(request.method, request.path) for request in requests} == {("POST", "/v1/chat/completions")}
    assert {request.headers["authorization"] for request in requests} == {"Bearer sk-test"}
    assert len({request.body for request in requests}) == 1
