"""A conversation in the form a chat template understands, checked and merged.  Pure functions.

* Contents become strings: text parts are joined with nothing between, null is empty.
* System and developer messages that come first are one system message, a blank line between them.
* A later one joins the user message that follows it: its text, a blank line, the user's text.  With
  no user message after it, it becomes one, at the end of the conversation.
* Tool call arguments become objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from engine.errors import InvalidPrompt

Message = dict[str, Any]

ROLES = ("system", "developer", "user", "assistant", "tool")


def normalize_messages(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """The messages a template gets: at most one system message, and it comes first."""
    conversation: list[Message] = []
    leading: list[str] = []
    waiting: list[str] = []
    for index, given in enumerate(messages):
        message = _checked(given, f"messages[{index}]")
        if message["role"] in ("system", "developer"):
            (waiting if conversation else leading).append(message["content"])
            continue
        if message["role"] == "user" and waiting:
            message["content"] = _joined([*waiting, message["content"]])
            waiting.clear()
        conversation.append(message)
    if waiting:
        conversation.append({"role": "user", "content": _joined(waiting)})
    if leading:
        conversation.insert(0, {"role": "system", "content": _joined(leading)})
    return conversation


def _joined(texts: list[str]) -> str:
    return "\n\n".join(text for text in texts if text)


def _checked(given: Mapping[str, Any], where: str) -> Message:
    role = given.get("role")
    if role not in ROLES:
        raise InvalidPrompt(f"{where}.role is {role!r}, expected one of {', '.join(ROLES)}", f"{where}.role")
    message: Message = {**given, "content": _text(given.get("content"), f"{where}.content")}
    calls = given.get("tool_calls")
    if calls:
        if role != "assistant" or not isinstance(calls, list | tuple):
            raise InvalidPrompt(f"{where}.tool_calls: expected a list, in an assistant message", f"{where}.tool_calls")
        message["tool_calls"] = [
            _checked_call(call, f"{where}.tool_calls[{index}]") for index, call in enumerate(calls)
        ]
    return message


def _text(content: Any, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        raise InvalidPrompt(f"{where} is a {type(content).__name__}, expected a string or a list of parts", where)
    return "".join(_part_text(part, f"{where}[{index}]") for index, part in enumerate(content))


def _part_text(part: Any, where: str) -> str:
    kind = part.get("type", "text") if isinstance(part, Mapping) else type(part).__name__
    if kind != "text":
        raise InvalidPrompt(f"{where} is of type {kind!r}: this model reads only text", where)
    if not isinstance(part.get("text"), str):
        raise InvalidPrompt(f"{where}.text is missing or not a string", f"{where}.text")
    text: str = part["text"]
    return text


def _checked_call(call: Any, where: str) -> Message:
    function = call.get("function") if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str) or not name:
        raise InvalidPrompt(f"{where}.function.name is missing or not a string", f"{where}.function.name")
    arguments = _arguments(function.get("arguments"), f"{where}.function.arguments")
    return {**call, "function": {**function, "arguments": arguments}}


def _arguments(arguments: Any, where: str) -> dict[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except ValueError as error:
            raise InvalidPrompt(f"{where} is not JSON: {error}", where) from error
        except RecursionError as error:
            raise InvalidPrompt(f"{where} is nested too deeply", where) from error
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise InvalidPrompt(f"{where} is a {type(arguments).__name__}, expected an object", where)
    return dict(arguments)
