"""Nothing that a caller wrote, and no key, is in anything that the function writes, at any level, whatever happens."""

from __future__ import annotations

import contextlib
import hmac
import io
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ContextFull, DeadEnd, EngineError, InvalidPrompt, NumericFault, OutOfMemory
from engine.events import Progress, Text, ToolArguments, ToolCall
from handler import auth
from handler.errors import Unauthorized
from handler.log import set_up
from handler.settings import Settings
from tests.emulator import Lambda
from tests.handler.scripted import (
    KEY,
    LambdaContext,
    ScriptedEngine,
    Step,
    app_loading,
    app_with,
    chat,
    finished,
    prefilled,
    url_event,
)

ROOT = Path(__file__).parents[2]
CANARY = "canary 7f3a é"  # no name, so nothing may show it
TRACE = "canary"


def function(**fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "look", **fields}}


CALL = {"id": CANARY, "type": "function", "function": {"name": CANARY, "arguments": json.dumps({CANARY: CANARY})}}
SCHEMA = {"type": "object", "properties": {CANARY: {"const": CANARY, "$ref": CANARY}}, "required": [CANARY]}
EVERYWHERE = chat(
    CANARY,
    model="qwarm " + CANARY,
    user=CANARY,
    metadata={CANARY: CANARY},
    safety_identifier=CANARY,
    prompt_cache_key=CANARY,
    stop=[CANARY],
    tools=[function(description=CANARY, parameters=SCHEMA)],
    response_format={"type": "json_schema", "json_schema": {"name": CANARY, "schema": SCHEMA}},
    chat_template_kwargs={CANARY: CANARY},
    **{CANARY: CANARY},
) | {
    "messages": [
        {"role": "system", "content": CANARY, "name": CANARY},
        {"role": "user", "content": [{"type": "text", "text": CANARY}]},
        {"role": "assistant", "content": CANARY, "reasoning_content": CANARY, "tool_calls": [CALL]},
        {"role": "tool", "content": CANARY, "tool_call_id": CANARY},
    ]
}
HEADERS = {"user-agent": CANARY, "cookie": CANARY, "x-api-key": CANARY, "x-stainless-read-timeout": CANARY,
           "x-stainless-retry-count": CANARY, CANARY: CANARY}  # fmt: skip


def refused(field: str, value: Any) -> dict[str, Any]:
    return EVERYWHERE | {field: value}


REFUSED = [
    refused("messages", CANARY),
    refused("messages", [{"role": CANARY, "content": CANARY}]),
    refused("messages", [{"role": "user", "content": [{"type": CANARY}]}]),
    refused("messages", [{"role": "user", "content": CANARY}, {"role": "assistant", "content": CANARY}]),
    refused("messages", [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": CANARY}}]}]),
    refused("tools", [function(name=CANARY)]),
    refused("tool_choice", CANARY),
    refused("tool_choice", {"type": "function", "function": {"name": CANARY}}),
    refused("response_format", {"type": CANARY}),
    refused("logit_bias", {CANARY: CANARY}),
    refused("metadata", {CANARY: [CANARY]}),
    refused("metadata", {CANARY * 9: CANARY}),
    refused("reasoning_effort", CANARY),
    refused("modalities", [CANARY]),
    refused("stop", CANARY * 99),
    refused("model", CANARY),
    refused("chat_template_kwargs", {"enable_thinking": CANARY}),
    refused("temperature", CANARY),
]  # fmt: skip
FAILURES: list[Exception] = [
    InvalidPrompt(CANARY, "messages"),
    ContextFull(5000, 4096),
    DeadEnd(CANARY),
    NumericFault(CANARY),
    OutOfMemory(CANARY),
    EngineError(CANARY),
    KeyError(CANARY),
    ValueError(CANARY),
    UnicodeEncodeError("utf-8", CANARY, 0, 1, CANARY),
]
SPOKEN: list[Step] = [
    Progress(1, 2),
    prefilled(),
    Text(CANARY),
    ToolCall(0, CANARY, CANARY),
    ToolArguments(0, json.dumps({CANARY: CANARY})),
    finished(stop=CANARY, relaxed=(f"look/properties/{CANARY}", f"response_format/{CANARY}/~1", CANARY)),
]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Whatever is logged or printed, from the lowest level on, also by others."""
    output, logger = io.StringIO(), logging.getLogger("qwarm")
    before = logger.handlers[:], logger.level, logger.propagate
    monkeypatch.setattr(sys, "stderr", output)
    monkeypatch.setattr(sys, "stdout", output)
    set_up("debug")
    catch_all = logging.StreamHandler(output)
    logging.getLogger().addHandler(catch_all)
    yield output
    logging.getLogger().removeHandler(catch_all)
    logger.handlers[:], level, logger.propagate = before
    logger.setLevel(level)


def traces(written: io.StringIO) -> list[str]:
    return [line for line in written.getvalue().splitlines() if TRACE in line]


@pytest.mark.parametrize("mode", ["RESPONSE_STREAM", "BUFFERED"])
@pytest.mark.parametrize("streams", [True, False])
def test_an_answer_leaves_no_trace_of_what_was_asked_or_said(written: io.StringIO, mode: str, streams: bool) -> None:
    app = app_with(ScriptedEngine(SPOKEN), QWARM_INVOKE_MODE=mode, QWARM_LOG="debug")
    body = {name: value for name, value in EVERYWHERE.items() if name != "model"} | {"stream": streams}
    reply = app.handle(url_event(body, headers=HEADERS), LambdaContext())
    said = b"".join(reply.pieces()).decode() if mode == "RESPONSE_STREAM" else reply["body"]
    assert "7f3a" in said
    lines = [json.loads(line) for line in written.getvalue().splitlines() if line.startswith("{")]
    assert {"progress", "prefill", "completion", "metrics"} <= {line["message"] for line in lines}
    (done,) = [line for line in lines if line["message"] == "completion"]
    assert done["relaxed"] == ["look/properties/*", "response_format/*/~1", "*"]
    assert traces(written) == []


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/tokenize", "/apply-template"])
def test_a_refusal_leaves_no_trace_of_what_was_refused(written: io.StringIO, path: str) -> None:
    app = app_with(ScriptedEngine(SPOKEN))
    bodies = [*REFUSED, CANARY, json.dumps(CANARY), f'{{"{CANARY}": {CANARY}', f'{{"prompt": "{CANARY}", "n": 9}}']
    for body in bodies:
        app.handle(url_event(body, path, headers=HEADERS), LambdaContext())
    for change in (
        {"headers": {"authorization": f"Bearer {CANARY}"}},
        {"headers": {"x-api-key": CANARY}},
        {"headers": {"authorization": CANARY}},
        {"rawPath": f"/v1/{CANARY}"},
        {"rawPath": f"/v1/models/{CANARY}", "requestContext": {"http": {"method": "GET"}}},
        {"requestContext": {"http": {"method": CANARY}}},
        {"isBase64Encoded": True, "body": CANARY},
        {"body": [CANARY]},
        {"headers": [CANARY]},
        {"headers": {"content-encoding": CANARY}},
    ):
        app.handle(url_event(EVERYWHERE) | change, LambdaContext())
    app.handle({CANARY: CANARY}, LambdaContext())
    app.handle({**EVERYWHERE, "stream": CANARY}, LambdaContext())
    assert written.getvalue().count('"refused"') > 20
    assert traces(written) == []
    assert KEY not in written.getvalue()


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
@pytest.mark.parametrize("mode", ["RESPONSE_STREAM", "BUFFERED"])
def test_a_failure_leaves_no_trace_of_what_it_says(written: io.StringIO, mode: str, failure: Exception) -> None:
    for script in ([failure], [prefilled(), Text(CANARY), failure]):
        app = app_with(ScriptedEngine(script), QWARM_INVOKE_MODE=mode)
        for streams in (False, True):
            reply = app.handle(url_event(chat(CANARY, stream=streams)), LambdaContext())
            if mode == "RESPONSE_STREAM":
                drain(reply)
    assert '"refused"' in written.getvalue() or '"failed"' in written.getvalue()
    assert traces(written) == []


def drain(reply: Any) -> None:
    with contextlib.suppress(*map(type, FAILURES)):  # which the runtime makes the trailer
        for _ in reply.pieces():
            pass
    reply.close()


def test_a_key_is_in_no_setting_that_is_shown_and_in_no_error_about_one(written: io.StringIO) -> None:
    settings = Settings(QWARM_API_KEY="sk-very-secret")
    app = app_loading(ScriptedEngine, QWARM_API_KEY="sk-very-secret")
    app.handle(url_event(chat()), LambdaContext())
    assert "sk-very-secret" not in written.getvalue()
    assert "sk-very-secret" not in repr(settings) + str(settings)


def test_keys_are_compared_in_constant_time_and_every_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    constant_time = hmac.compare_digest

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return constant_time(a, b)

    monkeypatch.setattr(auth.hmac, "compare_digest", compare)
    keys = auth.Keys(Settings(QWARM_API_KEY="sk-a,sk-é,sk-?"))
    for given, right in (("sk-a", True), ("sk-\u00e9", True), ("sk-", False), ("", False), ("sk-\ud800", False)):
        compared.clear()
        try:
            keys.check({"x-api-key": given})
            let_in = True
        except Unauthorized:
            let_in = False
        assert let_in is right
        assert [key for _, key in compared][:3] == [b"sk-a", "sk-é".encode(), b"sk-?"]


def test_the_process_writes_no_trace_of_a_request_anywhere() -> None:
    """The whole runtime: what awslambdaric writes is in this, too."""
    environ = {"QWARM_API_KEY": KEY, "QWARM_INVOKE_MODE": "RESPONSE_STREAM", "QWARM_LOG": "debug"}
    with Lambda([sys.executable, "-m", "tests.handler.scripted_app"], ROOT, environ) as running:
        for body in (EVERYWHERE, chat(CANARY), chat(CANARY, stream=True), *REFUSED[:6], chat("bug"), chat("early bug")):
            running.invoke(url_event(body, headers=HEADERS)).body()
        running.invoke(url_event(chat(CANARY), headers={"authorization": f"Bearer {CANARY}"})).body()
        assert running.stdout() == ""
        assert '"completion"' in running.stderr()
        assert TRACE not in running.stderr() and KEY not in running.stderr() and "a secret" not in running.stderr()
