"""A pydantic error as one sentence with the request field it is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from handler.body import named
from handler.errors import BadRequest

_OWN_CODES = {"unsupported_content_type", "unsupported_value", "invalid_value"}
_SUBJECT = re.compile("^(Input|String|List|Dictionary|Value) (?=should)")
_OPEN = ("logit_bias", "metadata")  # objects of which the keys are the caller's own
_CLASS = re.compile(r"a valid dictionary( or instance of \w+)?")  # pydantic speaks of Python, the caller of JSON
_JSON_TERMS = {
    "a valid list": "an array",
    "a valid ": "a ",
    "a integer": "an integer",
    " after validation": "",
}


def bad_request(error: ValidationError) -> BadRequest:
    """The first thing wrong, for the caller."""
    first = error.errors(include_url=False)[0]
    param = field_path(first["loc"])
    return BadRequest(_sentence(param, first), param, _code(first["type"]))


def field_path(loc: Sequence[int | str]) -> str:
    """('messages', 0, 'content') as messages[0].content.  The caller's own keys are not part of it."""
    path = ""
    for part in loc:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
        if part in _OPEN:
            break
    return path


def _sentence(param: str, error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return f"'{param}' is required."
    expected = _SUBJECT.sub("", error["msg"])
    expected = _CLASS.sub("an object", expected)
    for python, json in _JSON_TERMS.items():
        expected = expected.replace(python, json)
    return f"'{param}' {expected}{_found(error)}."


def _found(error: ErrorDetails) -> str:
    value: Any = error["input"]
    if error["type"] == "literal_error" and isinstance(value, str):
        return f", not {value[:40]!r}"
    if error["type"].endswith(("_type", "_error", "_than", "_than_equal")) and ", not " not in error["msg"]:
        return f", not {named(value)}"
    return ""  # a length or a pattern says enough, and checks of our own say what they found


def _code(kind: str) -> str:
    if kind in _OWN_CODES:
        return kind
    if kind == "missing":
        return "missing_required_parameter"
    return "invalid_type" if kind.endswith("_type") else "invalid_value"
