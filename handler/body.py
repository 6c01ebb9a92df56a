"""A request body as a JSON object that is safe to walk: bounded in depth, valid Unicode, finite numbers."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from handler.errors import BadRequest
from handler.limits import MAX_DEPTH, MAX_VALUES

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class NotJson(ValueError):
    """The text is not JSON this function takes; the message says why."""


def json_object(body: bytes) -> dict[str, Any]:
    """The object in a request body; BadRequest if there is none."""
    if not body.strip():
        raise BadRequest("The request has no body; a JSON object was expected.", code="invalid_body")
    try:
        value = parse_json(body.decode("utf-8", "strict"), unique_keys=True)
    except UnicodeDecodeError as error:
        raise BadRequest(f"The body is not UTF-8: byte {error.start} is invalid.", code="invalid_body") from None
    except NotJson as error:
        raise BadRequest(f"The body is not valid JSON: {error}.", code="invalid_json") from None
    if not isinstance(value, dict):
        raise BadRequest(f"The body is {named(value)}; a JSON object was expected.", code="invalid_body")
    return value


def parse_json(text: str, *, unique_keys: bool = False) -> Any:
    """The value of a JSON text, half surrogate pairs in it replaced by U+FFFD; NotJson if it is not one.

    Without ``unique_keys`` the last of several equal keys counts, as it does where a model wrote them.
    """
    pairs_hook = _unique if unique_keys else None
    try:
        return _Cleaner().cleaned(
            json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=pairs_hook), MAX_DEPTH
        )
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg.lower().removesuffix(' at')} at character {error.pos}") from None
    except RecursionError:
        raise NotJson(f"it is nested more than {MAX_DEPTH} deep") from None
    except NotJson:
        raise
    except ValueError:  # Python's limit on the digits of an integer
        raise NotJson("a number in it has too many digits") from None


def named(value: Any) -> str:
    """What a JSON value is, without quoting what it says."""
    match value:
        case None:
            return "null"
        case bool() | int() | float():
            return json.dumps(value)
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


class _Cleaner:
    """Makes one parsed value safe, in place where it can: a body of small parts is large enough once."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def cleaned(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise NotJson(f"it has more than {MAX_VALUES} values")
        if depth < 0:
            raise NotJson(f"it is nested more than {MAX_DEPTH} deep")
        if isinstance(value, str):
            return _cleaned_text(value)
        if isinstance(value, list):
            value[:] = [self.cleaned(item, depth - 1) for item in value]
        elif isinstance(value, dict):
            return {_cleaned_text(key): self.cleaned(item, depth - 1) for key, item in value.items()}
        elif isinstance(value, float) and not math.isfinite(value):
            raise NotJson("a number in it is too large")
        return value


def _cleaned_text(text: str) -> str:
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise NotJson("an object in it has the same key twice")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not a JSON number")
