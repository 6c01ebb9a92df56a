"""Requests recorded as files: a Lambda event or a bare chat-completions body, for commands that look at prompts.

Only what a prompt is made of is read, in the form in which the handler hands it to the engine.  A request that the
handler would refuse is not refused here unless it cannot be read.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.request import ChatRequest

_NO_THINKING = ("none", "minimal")
_TOOL_FIELDS = ("type", "function")
_FUNCTION_FIELDS = ("name", "description", "parameters")


def read_recorded(path: str) -> ChatRequest:
    """The conversation in a file.  ValueError names the file and what is wrong with it."""
    try:
        return chat_request(_body(json.loads(Path(path).read_text(encoding="utf-8"))))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not a recorded chat request: {error}") from error


def read_tools(path: str) -> tuple[dict[str, Any], ...]:
    """The tools in a file: the list a request has under ``tools``."""
    try:
        return tools_for_template(json.loads(Path(path).read_text(encoding="utf-8")))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not a JSON list of tools: {error}") from error


def chat_request(body: Mapping[str, Any]) -> ChatRequest:
    """The part of a request body that decides its prompt."""
    kwargs = dict(body.get("chat_template_kwargs") or {})
    thinking = kwargs.pop("enable_thinking", None)
    if thinking is None:
        thinking = body.get("enable_thinking")
    if thinking is None and body.get("reasoning_effort"):
        thinking = body["reasoning_effort"] not in _NO_THINKING
    return ChatRequest(
        messages=tuple(_message(message) for message in body["messages"]),
        tools=tools_for_template(body.get("tools") or ()),
        thinking=thinking,
        template_kwargs=kwargs,
        continue_final=bool(body.get("continue_final_message")),
    )


def tools_for_template(tools: Any) -> tuple[dict[str, Any], ...]:
    """Tools with the fields a prompt shows, in the order they were sent in."""
    if not isinstance(tools, list | tuple) or not all(isinstance(tool, dict) for tool in tools):
        raise TypeError("expected a list of objects")
    return tuple(
        _given(tool, _TOOL_FIELDS) | {"function": _given(tool["function"], _FUNCTION_FIELDS)} for tool in tools
    )


def _given(fields: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name in names and value is not None}


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    kept = {"role": message["role"], "content": message.get("content")}
    if message["role"] == "assistant":
        reasoning = message.get("reasoning_content")
        reasoning = message.get("reasoning") if reasoning is None else reasoning
        kept |= {} if reasoning is None else {"reasoning_content": reasoning}
        kept |= {"tool_calls": message["tool_calls"]} if message.get("tool_calls") else {}
    elif message["role"] == "tool" and message.get("tool_call_id") is not None:
        kept["tool_call_id"] = message["tool_call_id"]
    return kept


def _body(recorded: Any) -> Mapping[str, Any]:
    if isinstance(recorded, dict) and isinstance(recorded.get("body"), str):
        text = recorded["body"]
        recorded = json.loads(base64.b64decode(text) if recorded.get("isBase64Encoded") else text)
    if not isinstance(recorded, dict) or not isinstance(recorded.get("messages"), list):
        raise ValueError("there is no list of messages in it, or in its body")
    return recorded
