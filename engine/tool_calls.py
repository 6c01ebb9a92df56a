r"""Find tool calls in the model's text, as it arrives.

    <tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>

A value that begins on a new line ends only at a ``</parameter>`` on a line of its own that another parameter
or the end of the function follows; anything else is part of it.  (One that begins on the marker's line may
end on a line.)  What does not begin like a call is text.  When the output ends within a call, its arguments
are closed, so that they are JSON; if nothing of the call was reported yet, it is text.
"""

from __future__ import annotations

import json
import re
import secrets
import string
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import groupby
from typing import Any, Literal

from engine.argument_types import ArgumentTypes
from engine.events import Text, ToolArguments, ToolCall

CallEvent = Text | ToolCall | ToolArguments

_BASE62 = string.digits + string.ascii_letters


def new_call_id() -> str:
    return "call_" + "".join(secrets.choice(_BASE62) for _ in range(24))


class _Markers:
    """Alternatives of what may come next, each a sequence of patterns, and ``first``: how they begin.

    The patterns are bounded, and so is the text that has to be looked at.
    """

    def __init__(self, first: str, *alternatives: tuple[str, ...]) -> None:
        self._first = re.compile(first)
        self._whole = [re.compile("".join(patterns)) for patterns in alternatives]
        self._beginning = [re.compile(_beginning_of(patterns)) for patterns in alternatives]

    def candidate(self, text: str, at: int) -> int:
        """Where one may begin."""
        found = self._first.search(text, at)
        return found.start() if found else len(text)

    def look(self, text: str, at: int) -> tuple[re.Match[str] | None, bool]:
        """The marker at a place, and whether there may be one there once more text has come."""
        found = next(filter(None, (whole.match(text, at) for whole in self._whole)), None)
        return found, any(beginning.fullmatch(text, at) for beginning in self._beginning)


def _beginning_of(patterns: tuple[str, ...]) -> str:
    return reduce(lambda rest, pattern: f"(?:{pattern}{rest})?", reversed(patterns), "")


_NAME = "[^<>\n]{1,256}"
_SPACE = r"\s{0,16}"
_KEY = (*"<parameter=", f"(?P<key>{_NAME})", ">")
_END = tuple("</function>")
_OPEN = (*"<tool_call>", _SPACE, *"<function=", f"(?P<name>{_NAME})", ">", _SPACE)
_OWN_LINE = ("\n", *"</parameter>", r"[ \t\r]{0,16}", "\n", _SPACE)
_IN_LINE = ("\n?", *"</parameter>", _SPACE)

_CALL = _Markers("<", _OPEN + _KEY, _OPEN + _END)
_CALL_END = _Markers("", (_SPACE, *"</tool_call>"))
_OWN_LINE_CLOSE = _Markers("\n", _OWN_LINE + _KEY, _OWN_LINE + _END)
_IN_LINE_CLOSE = _Markers("[\n<]", _IN_LINE + _KEY, _IN_LINE + _END)
_CLOSED = re.compile("\n?</parameter>")


class ToolCallParser:
    """Turns pieces of text into events, whose joined content does not depend on how the text is cut."""

    def __init__(self, tools: tuple[dict[str, Any], ...]) -> None:
        self._schemas = {tool["function"]["name"]: tool["function"].get("parameters") for tool in tools}
        self._state: Literal["text", "value", "call_end"] = "text"
        self._undecided = ""
        self._n_calls = 0
        self.completed_calls = 0
        # The call and the parameter at hand
        self._types = ArgumentTypes(None)
        self._parameter = ""
        self._close = _OWN_LINE_CLOSE
        self._newline_due = False  # the line break after the marker is not part of the value
        self._streamed = False  # a string is sent while it arrives
        self._value: list[str] = []  # any other value when it is whole

    def feed(self, text: str) -> list[CallEvent]:
        return _joined(self._parse(self._undecided + text, final=False))

    def finish(self) -> list[CallEvent]:
        """What the end of the output decides."""
        events = list(self._parse(self._undecided, final=True))
        if self._state == "value":
            events += [*self._end_value(), self._arguments("}")]
            self._state = "text"
        return _joined(events)

    def _parse(self, text: str, final: bool) -> Iterator[CallEvent]:
        at = 0
        while at < len(text):
            markers = self._markers(text[at])
            start, at = at, markers.candidate(text, at)
            if at > start:
                yield from self._pass(text[start:at])
                continue
            found, may_become = markers.look(text, at)
            if found:
                at = found.end()
                yield from self._take(found)
            elif may_become and not final:
                break
            elif may_become and (self._state == "call_end" or _CLOSED.match(text, at)):
                at = len(text)  # the output ends within an end marker
            elif self._state == "call_end":
                self._state = "text"
            elif self._newline_due:
                self._newline_due = False
                at += 1
            else:
                yield from self._pass(text[at])
                at += 1
        self._undecided = text[at:]

    def _markers(self, next_char: str) -> _Markers:
        """What ends the part of the text that is being read."""
        if self._state == "text":
            return _CALL
        if self._state == "call_end":
            return _CALL_END
        if self._newline_due and next_char != "\n":
            self._newline_due = False
            self._close = _IN_LINE_CLOSE
        return self._close

    def _take(self, marker: re.Match[str]) -> Iterator[CallEvent]:
        if self._state == "call_end":
            self._state = "text"
            return
        groups = marker.groupdict()
        key = groups.get("key")
        if self._state == "text":
            self._types = ArgumentTypes(self._schemas.get(groups["name"]))
            self._n_calls += 1
            yield ToolCall(self._n_calls - 1, new_call_id(), groups["name"])
            yield self._arguments("{")
        else:
            yield from self._end_value()
            if key is not None:
                yield self._arguments(", ")
        if key is not None:
            yield from self._begin_value(key)
        else:
            yield self._arguments("}")
            self.completed_calls += 1
            self._state = "call_end"

    def _begin_value(self, key: str) -> Iterator[CallEvent]:
        self._state = "value"
        self._parameter = key
        self._close = _OWN_LINE_CLOSE
        self._newline_due = True
        self._streamed = self._types.is_string(key)
        yield self._arguments(json.dumps(key, ensure_ascii=False) + (': "' if self._streamed else ": "))

    def _end_value(self) -> Iterator[CallEvent]:
        if self._streamed:
            yield self._arguments('"')
        else:
            yield self._arguments(self._types.to_json(self._parameter, "".join(self._value)))
            self._value.clear()

    def _pass(self, text: str) -> Iterator[CallEvent]:
        """Text that is no part of a marker."""
        if self._state != "value":
            yield Text(text)
        elif self._streamed:
            yield self._arguments(json.dumps(text, ensure_ascii=False)[1:-1])
        else:
            self._value.append(text)

    def _arguments(self, piece: str) -> ToolArguments:
        return ToolArguments(self._n_calls - 1, piece)


def _joined(events: Iterable[CallEvent]) -> list[CallEvent]:
    """Neighbors of a kind as one event.  A new call separates the arguments of two."""
    joined: list[CallEvent] = []
    for _, neighbors in groupby(events, type):
        run = list(neighbors)
        match run[0]:
            case Text():
                joined.append(Text("".join(event.text for event in run if isinstance(event, Text))))
            case ToolArguments(index=index):
                pieces = (event.json for event in run if isinstance(event, ToolArguments))
                joined.append(ToolArguments(index, "".join(pieces)))
            case _:
                joined += run
    return joined
