"""A request body as a JSON object that is safe to walk: bounded in depth, valid Unicode, finite numbers."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from handler.errors import BadRequest

MAX_DEPTH = 100
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class NotJson(ValueError):
    """The text is not JSON this function takes; the message says why."""


def json_object(body: bytes) -> dict[str, Any]:
    """The object in a request body; BadRequest if there is none."""
    if not body.strip():
        raise BadRequest("The request has no body; a JSON object was expected.", code="invalid_body")
    try:
        value = parse_json(body.decode("utf-8", "strict"))
    except UnicodeDecodeError as error:
        raise BadRequest(f"The body is not UTF-8: byte {error.start} is invalid.", code="invalid_body") from None
    except NotJson as error:
        raise BadRequest(f"The body is not valid JSON: {error}.", code="invalid_json") from None
    if not isinstance(value, dict):
        raise BadRequest(f"The body is {named(value)}; a JSON object was expected.", code="invalid_body")
    return value


def parse_json(text: str) -> Any:
    """The value of a JSON text, half surrogate pairs in it replaced by U+FFFD; NotJson if it is not one."""
    try:
        return _cleaned(json.loads(text, parse_constant=_refuse_constant), MAX_DEPTH)
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


def _cleaned(value: Any, depth: int) -> Any:
    if depth < 0:
        raise NotJson(f"it is nested more than {MAX_DEPTH} deep")
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_cleaned(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {_LONE_SURROGATE.sub("\ufffd", key): _cleaned(item, depth - 1) for key, item in value.items()}
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not a JSON number")
