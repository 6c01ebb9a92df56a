"""Texts that have broken other servers, on their way to the engine and back."""

from __future__ import annotations

import base64
import json

import pytest

from engine.events import ToolArguments, ToolCall
from tests.handler.scripted import (
    LambdaContext,
    ScriptedEngine,
    app_with,
    chat,
    finished,
    post,
    prefilled,
    sse_chunks,
    url_event,
)


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x28\xa1"])
@pytest.mark.parametrize("encoded", [False, True])
def test_a55_bytes_that_are_not_utf8_are_refused(raw: bytes, encoded: bool) -> None:
    body = json.dumps(chat("before|after")).encode().replace(b"|", raw)
    text = base64.b64encode(body).decode() if encoded else body.decode("utf-8", "surrogateescape")
    engine = ScriptedEngine()
    event = url_event(text) | {"isBase64Encoded": encoded}
    reply = app_with(engine).handle(event, LambdaContext())
    assert (reply["statusCode"], json.loads(reply["body"])["error"]["code"]) == (400, "invalid_body")
    assert engine.requests == []


@pytest.mark.parametrize("streams", [False, True])
def test_a41_a_call_of_a_function_that_was_not_declared_is_passed_on(streams: bool) -> None:
    script = [
        prefilled(),
        ToolCall(0, "call_1", "toolbox.web.answer"),
        ToolArguments(0, "{}"),
        finished(reason="tool_calls"),
    ]
    tools = [{"type": "function", "function": {"name": "execute"}}]
    reply = app_with(ScriptedEngine(script)).handle(url_event(chat(tools=tools, stream=streams)), LambdaContext())
    assert reply["statusCode"] == 200
    if streams:
        choices = [chunk["choices"][0] for chunk in sse_chunks(reply["body"])[:-1]]
        calls = [call for choice in choices for call in choice["delta"].get("tool_calls", ())]
    else:
        choices = json.loads(reply["body"])["choices"]
        calls = choices[0]["message"]["tool_calls"]
    assert calls[0]["function"]["name"] == "toolbox.web.answer"
    assert choices[-1]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("text", ["A" * 50_000, "界" * 50_000, " " * 50_000, "_" * 1_000_000, "a" * 1_000_000])
def test_a13_a14_a_long_unbroken_run_reaches_the_engine_as_it_is(text: str) -> None:
    engine = ScriptedEngine()
    assert post(app_with(engine), chat(text))[0] == 200
    assert engine.requests[0].messages[0]["content"] == text


def test_a18_a_nul_cuts_nothing_off_anywhere() -> None:
    engine = ScriptedEngine()
    messages = [{"role": "user", "content": "before\0after"}, {"role": "assistant", "content": "ok"}]
    status, answer = post(
        app_with(engine), {"messages": [*messages, {"role": "user", "content": "LAST"}]}, path="/apply-template"
    )
    assert (status, answer["prompt"]) == (200, "<user>before\0after<assistant>ok<user>LAST")
    assert answer["tokens"] == len(answer["prompt"])
