"""The sentence that says why two prompts part where they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.chat_template import Rendered
from engine.messages import Message
from engine.native import Ids

_QUOTED_CHARS = 30


@dataclass(frozen=True, slots=True)
class Turn:
    """A request and its prompt."""

    name: str
    messages: list[Message]  # normalized
    tools: tuple[dict[str, Any], ...]
    rendered: Rendered
    ids: Ids


def reason(before: Turn, turn: Turn, shared: int) -> str:
    """Why ``turn`` has no more than ``shared`` tokens in common with a prompt before it."""
    if shared == len(before.ids) == len(turn.ids):
        return "it is the same prompt again"
    if shared == len(before.ids):
        return "it goes on where the earlier answer ended, if that comes back as it was generated"
    if shared == len(turn.ids):
        return "it is the beginning of the earlier prompt"
    if shared < max(before.rendered.base_end or 0, turn.rendered.base_end or 0):
        return _system_reason(before, turn)
    return _message_reason(before, turn, shared)


def _system_reason(before: Turn, turn: Turn) -> str:
    if before.tools != turn.tools:
        return f"the tools are not the same: {_tools_difference(before.tools, turn.tools)}"
    a, b = _system_text(before), _system_text(turn)
    if a == b:
        return "the template writes another system block for the same text: its settings are not the same"
    if not a or not b:
        return f"only {'the earlier prompt' if a else 'this prompt'} has a system text"
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return (
        f"the system text is not the same from character {at} on: "
        f"{_quoted(a[at:])} before, {_quoted(b[at:])} now; what changes should come last, or in a user message"
    )


def _system_text(turn: Turn) -> str:
    first = turn.messages[0] if turn.messages else {"role": "none"}
    return str(first["content"]) if first["role"] == "system" else ""


def _tools_difference(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> str:
    names_before, names_now = ([str(tool["function"].get("name")) for tool in tools] for tools in (before, now))
    gone = [name for name in names_before if name not in names_now]
    new = [name for name in names_now if name not in names_before]
    if gone or new:
        return "; ".join([*(f"{name} is gone" for name in gone), *(f"{name} is new" for name in new)])
    if names_before != names_now:
        return "their order is another"
    changed = [name for name, a, b in zip(names_now, before, now, strict=True) if a != b]
    if changed:
        return f"{', '.join(changed)} is declared otherwise"
    return "the keys in a declaration are in another order"


def _message_reason(before: Turn, turn: Turn, shared: int) -> str:
    equal = next(
        (i for i, (a, b) in enumerate(zip(before.messages, turn.messages, strict=False)) if a != b),
        min(len(before.messages), len(turn.messages)),
    )
    if equal < len(before.messages):
        return _history_reason(before, turn, equal)
    anchor = before.rendered.anchor
    if anchor is not None and shared < anchor:
        return (
            "a new user message follows, and the template now leaves the think blocks out of the turn that is over: "
            "they part where that turn's first answer began"
        )
    if len(turn.messages) == len(before.messages):
        return f"thinking was switched {'on' if turn.rendered.thinking else 'off'} for the same messages"
    if turn.messages[-1]["role"] == "tool":
        return (
            "the earlier answer came back without its reasoning, or with arguments the template writes otherwise; "
            "the function itself puts in what it generated if the tool call's id is its own"
        )
    return "the template does not repeat the think block of an earlier answer, not even an empty one"


def _history_reason(before: Turn, turn: Turn, equal: int) -> str:
    a = before.messages[equal]
    if equal >= len(turn.messages):
        return f"message {equal} ({a['role']}) and what followed are gone"
    b = turn.messages[equal]
    if a["role"] != b["role"]:
        return f"message {equal} was from the {a['role']} and is from the {b['role']}"
    if equal == 0 or (equal == 1 and before.messages[0]["role"] == "system"):
        return f"it is another conversation: message {equal} ({b['role']}) is not the same"
    return f"message {equal} ({b['role']}) was changed"


def _quoted(text: str) -> str:
    short = text if len(text) <= _QUOTED_CHARS else text[:_QUOTED_CHARS] + "…"
    return repr(short) if short else "nothing"
