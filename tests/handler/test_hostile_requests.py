"""Thousands of malformed bodies and events: each gets a good answer or an error of four fields, and leaves no trace."""

from __future__ import annotations

import base64
import copy
import gc
import io
import json
import logging
import random
import string
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handler.app import App
from handler.log import JsonLine
from tests.handler.scripted import (
    KEY,
    LambdaContext,
    ScriptedEngine,
    app_with,
    chat,
    post,
    url_event,
)

REQUESTS = sorted((Path(__file__).parent / "requests").glob("*.json"))
CHANGES_PER_REQUEST, DAMAGED, EVENTS, BODIES, ENCODED = 120, 3000, 400, 300, 500
ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/tokenize", "/apply-template")
CANARY = "canary 7f3a"
ODD: list[Any] = [
    None, True, 0, -1, 1e308, 10**30, "", "x", "\ud800", "\0", "x" * 300, [], {}, [[]], [None], {"": None},
    {"type": []}, CANARY, {CANARY: CANARY}, -(2**63), 10**400,
]  # fmt: skip
texts = st.text(max_size=12) | st.sampled_from([CANARY, "\ud800", "/v1/\udfff"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


class Watched:
    """An app in each invoke mode, and all that both log."""

    def __init__(self) -> None:
        self._apps = [app_with(ScriptedEngine(), QWARM_INVOKE_MODE=mode) for mode in ("BUFFERED", "RESPONSE_STREAM")]
        self.log = io.StringIO()
        self.answers = 0

    def ask(self, event: Any) -> int:
        """The status of an answer that has the shape every answer has, in both modes."""
        statuses = [self._asked(app, event) for app in self._apps]
        logged = self.log.getvalue()
        assert CANARY not in logged and '"failed"' not in logged
        self.log.truncate(self.log.seek(0))
        assert statuses[0] == statuses[1]
        return statuses[0]

    def _asked(self, app: App, event: Any) -> int:
        self.answers += 1
        result = app.handle(copy.deepcopy(event), LambdaContext())
        if isinstance(result, dict):
            text = result["body"] if "statusCode" in result else json.dumps(result)
            status = result.get("statusCode", 400 if "error" in result else 200)
        else:
            text, status = b"".join(result.pieces()).decode(), result.status
            result.close()
        if status >= 400:
            error = json.loads(text)["error"]
            assert set(error) == {"message", "type", "param", "code"}
            assert error["message"] and error["code"] != "internal_error" and status < 500
        return int(status)


@pytest.fixture(scope="module")
def app() -> Iterator[Watched]:
    watched = Watched()
    output = logging.StreamHandler(watched.log)
    output.setFormatter(JsonLine())
    logger = logging.getLogger("qwarm")
    before = logger.level, logger.propagate
    logger.addHandler(output)
    logger.level, logger.propagate = logging.DEBUG, False
    yield watched
    logger.removeHandler(output)
    logger.level, logger.propagate = before


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a JSON value with each of its keys."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            found += [(value, key), *places(value[key])]
    return found


def test_there_are_more_than_ten_thousand() -> None:
    hypothetical = 2 * EVENTS + BODIES * len(ENDPOINTS) + ENCODED
    assert len(REQUESTS) * CHANGES_PER_REQUEST + DAMAGED + hypothetical > 10_000


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.stem)
def test_a91_a_recorded_request_with_one_field_changed_is_answered_or_refused_in_words(
    app: Watched, path: Path
) -> None:
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
        app.ask(url_event(json.dumps(body)))
    assert app.ask(url_event(chat())) == 200


def test_a91_a_body_with_damaged_bytes_is_answered_or_refused_in_words(app: Watched) -> None:
    choose = random.Random(1)
    text = json.dumps(chat(tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}], stop=["a"]))
    refused = 0
    for _ in range(DAMAGED):
        damaged = list(text)
        for _ in range(choose.randrange(1, 4)):
            at = choose.randrange(len(damaged))
            damaged[at] = choose.choice([*string.printable, "\0", "\ud800", "é", ""])
        refused += app.ask(url_event("".join(damaged))) >= 400
    assert refused > DAMAGED / 3


@settings(max_examples=EVENTS, deadline=None)
@given(
    event=json_values | st.dictionaries(st.sampled_from(["requestContext", "body", "headers", "messages"]), json_values)
)
def test_any_event_is_answered(app: Watched, event: Any) -> None:
    app.ask(event)


@settings(max_examples=EVENTS, deadline=None)
@given(
    changes=st.dictionaries(
        st.sampled_from(
            "version rawPath headers multiValueHeaders requestContext isBase64Encoded body path httpMethod".split()
        ),
        json_values,
        min_size=1,
    )
)
def test_a_url_event_with_anything_in_its_fields_is_answered(app: Watched, changes: Any) -> None:
    app.ask(url_event(chat()) | changes)


@pytest.mark.parametrize("change", [{"rawPath": "/v1/\ud800"}, {"requestContext": {"http": {"method": "\ud800"}}}])
def test_a55_half_a_surrogate_outside_of_the_body_is_answered(app: Watched, change: dict[str, Any]) -> None:
    assert app.ask(url_event(chat()) | change) in (404, 405)


@settings(max_examples=BODIES, deadline=None)
@given(body=json_values)
def test_any_json_is_answered_at_every_endpoint(app: Watched, body: Any) -> None:
    for path in ENDPOINTS:
        app.ask(url_event(json.dumps(body), path))


def in_event(form: str, body: Any, path: str, encoded: bool) -> dict[str, Any]:
    """A body as each of the senders of events puts it."""
    headers = {"authorization": f"Bearer {KEY}"}
    balancer = {"elb": {"targetGroupArn": "arn"}}
    shapes: dict[str, dict[str, Any]] = {
        "url": url_event(path=path),
        "api 1": {"path": path, "httpMethod": "POST", "headers": headers, "requestContext": {"stage": "prod"}},
        "balancer": {"path": path, "httpMethod": "POST", "headers": headers, "requestContext": balancer},
        "multi": {
            "path": path,
            "httpMethod": "POST",
            "multiValueHeaders": {name: [value] for name, value in headers.items()},
            "requestContext": balancer,
        },
    }  # fmt: skip
    return shapes[form] | {"body": body, "isBase64Encoded": encoded}


@settings(max_examples=ENCODED, deadline=None)
@given(
    form=st.sampled_from(["url", "api 1", "balancer", "multi"]),
    path=st.sampled_from(ENDPOINTS),
    text=st.one_of(json_values.map(json.dumps), texts, st.just(json.dumps(chat("é\0界")))),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "utf-32"]),
    cut=st.integers(0, 3),
    encoded=st.booleans(),
)
def test_a55_a_body_in_any_encoding_from_any_sender_is_answered_or_refused(
    app: Watched, form: str, path: str, text: str, encoding: str, cut: int, encoded: bool
) -> None:
    raw = text.encode(encoding, "replace")
    raw = raw[: len(raw) - cut]
    body = base64.b64encode(raw).decode() if encoded else raw.decode("utf-8", "surrogateescape")
    app.ask(in_event(form, body, path, encoded))
    app.ask(in_event(form, text, path, encoded=True))


def test_a91_refusals_one_after_the_other_leave_no_memory_behind(app: Watched) -> None:
    bodies = [
        "{",
        "[" * 5000,
        '"\ud800"',
        json.dumps(chat(n=2)),
        json.dumps(chat(tools=[{}] * 129)),
        json.dumps(chat(stop=["x"] * 17)),
    ]
    held: list[int] = []
    logging.disable()  # pytest keeps every record
    tracemalloc.start()
    try:
        for _ in range(3):
            for body in bodies * 20:
                assert app.ask(url_event(body)) == 400
            assert app.ask(url_event(chat())) == 200
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
        logging.disable(logging.NOTSET)
    assert held[2] - held[1] < 20_000, held


@pytest.mark.parametrize(
    "body", ["[" * 100_000, '{"messages":' + '[{"a":' * 20_000, '{"max_tokens": ' + "9" * 5000 + "}"]
)
def test_what_cannot_be_read_is_refused_before_the_engine_sees_it(body: str) -> None:
    engine = ScriptedEngine()
    assert post(app_with(engine), body)[0] == 400
    assert engine.requests == []


def test_a_schema_deeper_than_the_limit_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(120):
        schema = {"type": "object", "properties": {"x": schema}}
    form = {"type": "json_schema", "json_schema": {"name": "deep", "schema": schema}}
    status, answer = post(app_with(ScriptedEngine()), chat(response_format=form))
    assert (status, answer["error"]["code"]) == (400, "invalid_json")
