"""The page as the handler serves it; what it does in a browser is tests/page/check_page.py's."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import pytest

from handler.event import Reply
from tests.handler.scripted import LambdaContext, ScriptedEngine, app_with, url_event


def get(path: str = "/", method: str = "GET", **settings: Any) -> Reply:
    app = app_with(ScriptedEngine(), QWARM_INVOKE_MODE="RESPONSE_STREAM", **settings)
    event = url_event(path=path, method=method)
    del event["headers"]["authorization"]
    reply = app.handle(event, LambdaContext())
    assert isinstance(reply, Reply)
    return reply


def test_the_page_is_served_without_a_key_where_it_is_on() -> None:
    reply = get(QWARM_PAGE=True)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert reply.body.startswith("<!doctype html>")


def test_the_root_answers_as_health_does_where_the_page_is_off() -> None:
    assert '"status"' in get().body
    assert get().body == get("/health").body


@pytest.mark.parametrize("path", ["/health", "/v1", "/v1/"])
def test_only_the_root_is_the_page(path: str) -> None:
    assert '"status"' in get(path, QWARM_PAGE=True).body


def test_the_page_takes_no_other_method() -> None:
    reply = get(method="POST", QWARM_PAGE=True)
    assert (reply.status, reply.headers["allow"]) == (405, "GET")


def test_the_policy_lets_in_the_pages_own_script_and_style_and_nothing_else() -> None:
    reply = get(QWARM_PAGE=True)
    policy = dict(part.split(" ", 1) for part in reply.headers["content-security-policy"].split("; "))
    assert (policy["default-src"], policy["connect-src"]) == ("'none'", "'self'")
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", reply.body, re.DOTALL)
        assert policy[f"{tag}-src"] == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_page_names_no_other_place_and_no_inline_handler_or_style() -> None:
    html = get(QWARM_PAGE=True).body
    assert re.findall(r"(?:https?:)?//[\w.-]+\.\w+", html) == []
    assert re.findall(r"<[^>]+\s(?:on\w+|style|src)=", html) == []
    assert "innerHTML" not in html
