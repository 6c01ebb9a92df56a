"""What a request may demand of the answer's form: promised or refused, never quietly ignored."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from engine.request import ToolChoice
from handler.errors import BadRequest


def tool_choice(wanted: Any, declared: Collection[str]) -> ToolChoice:
    """The engine's tool choice; BadRequest for one that cannot be kept.

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
        case {"type": "function", "function": {"name": str(name)}}:
            if name not in declared:
                raise BadRequest("'tool_choice' names a function that is not in 'tools'.", "tool_choice")
        case _:
            raise BadRequest(
                "'tool_choice' should be 'auto', 'none', 'required' or "
                '{"type": "function", "function": {"name": ...}}.',
                "tool_choice",
            )
    raise BadRequest(
        "'tool_choice' that forces a call is not supported yet; use 'auto' or 'none'.",
        "tool_choice",
        "unsupported_value",
    )


def check_format(wanted: Any) -> None:
    """BadRequest unless the response format is plain text."""
    match wanted:
        case None | {"type": "text"}:
            return
        case {"type": "json_object" | "json_schema" as kind}:
            raise BadRequest(
                f"'response_format' of type '{kind}' is not supported yet; use 'text'.",
                "response_format",
                "unsupported_value",
            )
        case _:
            raise BadRequest(
                "'response_format' should be an object of type 'text', 'json_object' or 'json_schema'.",
                "response_format",
            )
