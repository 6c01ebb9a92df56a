"""What a request may demand of the answer's form: promised or refused, never quietly ignored."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from engine.grammar_schema import Schema, SchemaTooLarge
from engine.request import ResponseFormat, ToolChoice
from handler.errors import BadRequest

_FORMAT = "response_format"


def tool_choice(wanted: Any, declared: Collection[str]) -> ToolChoice:
    """The engine's tool choice; BadRequest for one that makes no sense.

    With "none" the tools stay in the prompt, so that its prefix is the one other requests share; no call is
    looked for in the answer.
    """
    match wanted:
        case None | "auto":
            return ToolChoice("auto")
        case "none":
            return ToolChoice("none")
        case "required":
            if not declared:
                raise BadRequest("'tool_choice' is 'required' and 'tools' is empty.", "tool_choice")
            return ToolChoice("required")
        case {"type": "function", "function": {"name": str(name)}}:
            if name not in declared:
                raise BadRequest("'tool_choice' names a function that is not in 'tools'.", "tool_choice")
            return ToolChoice("named", name)
        case _:
            raise BadRequest(
                "'tool_choice' should be 'auto', 'none', 'required' or "
                '{"type": "function", "function": {"name": ...}}.',
                "tool_choice",
            )


def response_format(wanted: Any) -> ResponseFormat | None:
    """The engine's response format, None for plain text; BadRequest for one that is not known or not whole."""
    match wanted:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return ResponseFormat({"type": "object"})
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)} as described}:
            _check_size(schema)
            return ResponseFormat(schema, _strict(described))
        case {"type": "json_schema"}:
            raise BadRequest(
                "'response_format.json_schema' should be an object with a 'schema' that is an object.",
                f"{_FORMAT}.json_schema",
            )
        case _:
            raise BadRequest(
                "'response_format' should be an object of type 'text', 'json_object' or 'json_schema'.", _FORMAT
            )


def _check_size(schema: dict[str, Any]) -> None:
    """The engine would refuse it too, after the prompt has been made."""
    place = f"{_FORMAT}.json_schema.schema"
    try:
        Schema(schema)
    except SchemaTooLarge as error:
        raise BadRequest(f"'{place}' cannot be enforced: {error}.", place) from None


def _strict(described: dict[str, Any]) -> bool:
    strict = described.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise BadRequest(
            "'response_format.json_schema.strict' should be true or false.", f"{_FORMAT}.json_schema.strict"
        )
    if not isinstance(described.get("name", ""), str):
        raise BadRequest("'response_format.json_schema.name' should be a string.", f"{_FORMAT}.json_schema.name")
    return strict is True
