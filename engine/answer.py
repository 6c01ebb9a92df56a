"""From the bytes of generated tokens to the events of one answer: reasoning, text and tool calls.

Stop strings are looked for in the text only, between calls.  White space around tool calls is not text: it is
sent only if more text follows.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from engine.events import Event, Reasoning, Text, ToolCall
from engine.text_stream import HeldEnd, StopStrings, Utf8Stream
from engine.tool_calls import CallEvent, ToolCallParser

_THINK, _END_THINK = "<think>", "</think>"


class AnswerParser:
    """One answer.  ``thinking``: the prompt ended inside a think block.

    A model that opens the block itself, as its first words, is understood too.  A block that is never closed
    is all reasoning; think markers anywhere else are text.
    """

    def __init__(
        self, thinking: bool, tools: tuple[dict[str, Any], ...], stop: tuple[str, ...], parse_tools: bool
    ) -> None:
        self._thinking = thinking
        self._section: Literal["start", "reasoning", "answer"] = "start"
        self._undecided = ""
        self._newlines_due = thinking  # those after a think marker belong to it
        self._utf8 = Utf8Stream()
        self._reasoning_end = HeldEnd("\n")
        self._calls = ToolCallParser(tools) if parse_tools else None
        self._stops = StopStrings(stop)
        self._text_end = HeldEnd(string.whitespace)
        self._text_sent = False
        self.has_tool_calls = False

    @property
    def stopped(self) -> str | None:
        """The stop string that ended the answer."""
        return self._stops.stopped

    @property
    def in_reasoning(self) -> bool:
        return self._section == "reasoning" or (self._section == "start" and self._thinking)

    @property
    def completed_calls(self) -> int:
        return self._calls.completed_calls if self._calls else 0

    def feed(self, token_bytes: bytes) -> list[Event]:
        """What the next token adds.  Nothing any more once ``stopped``."""
        return [] if self.stopped is not None else list(self._read(self._utf8.feed(token_bytes)))

    def finish(self) -> list[Event]:
        """What was held back, however the answer ended."""
        events: list[Event] = []
        if self.stopped is None:
            events += self._read(self._utf8.finish())
            events += self._end()
        space = self._text_end.flush()
        if space and not self.has_tool_calls:
            events.append(Text(space))
        return events

    def _read(self, text: str) -> Iterator[Event]:
        text, self._undecided = self._undecided + text, ""
        if self._section == "start":
            words = text.lstrip(string.whitespace)
            if _THINK.startswith(words) and words != _THINK:
                self._undecided = text
                return
            if words.startswith(_THINK):
                self._section, self._newlines_due, text = "reasoning", True, words.removeprefix(_THINK)
            else:
                self._section = "reasoning" if self._thinking else "answer"
        if self._section == "reasoning":
            text, marker, rest = text.partition(_END_THINK)
            if not marker:
                safe = len(text) - _overlap(text, _END_THINK)
                text, self._undecided = text[:safe], text[safe:]
            yield from self._reasoning(text)
            if not marker:
                return
            self._section, self._newlines_due, text = "answer", True, rest
        yield from self._answer(text)

    def _end(self) -> Iterator[Event]:
        if self._section == "start":
            self._section = "reasoning" if self._thinking else "answer"
            yield from self._read("")
        if self._section == "reasoning":
            yield from self._reasoning(self._undecided)
            if newlines := self._reasoning_end.flush():
                yield Reasoning(newlines)
        elif self._calls:
            yield from self._events(self._calls.finish())
        yield from self._text(self._stops.flush())

    def _reasoning(self, text: str) -> Iterator[Event]:
        if text := self._reasoning_end.feed(self._without_due_newlines(text)):
            yield Reasoning(text)

    def _answer(self, text: str) -> Iterator[Event]:
        text = self._without_due_newlines(text)
        if self._calls:
            yield from self._events(self._calls.feed(text))
        else:
            yield from self._text(self._stops.feed(text))

    def _events(self, events: Iterable[CallEvent]) -> Iterator[Event]:
        for event in events:
            if isinstance(event, Text):
                yield from self._text(self._stops.feed(event.text))
                if self.stopped is not None:
                    return
                continue
            if isinstance(event, ToolCall):
                yield from self._text(self._stops.flush())
                self.has_tool_calls = True
            yield event

    def _text(self, text: str) -> Iterator[Event]:
        text = self._text_end.feed(text)
        if self.has_tool_calls and not self._text_sent:
            text = text.lstrip(string.whitespace)
        if text:
            self._text_sent = True
            yield Text(text)

    def _without_due_newlines(self, text: str) -> str:
        if self._newlines_due:
            text = text.lstrip("\n")
            self._newlines_due = not text
        return text


class PlainParser:
    """An answer that is text and nothing else, whatever it looks like."""

    in_reasoning = False
    has_tool_calls = False
    completed_calls = 0

    def __init__(self, stop: tuple[str, ...]) -> None:
        self._utf8 = Utf8Stream()
        self._stops = StopStrings(stop)

    @property
    def stopped(self) -> str | None:
        return self._stops.stopped

    def feed(self, token_bytes: bytes) -> list[Event]:
        return _as_events(self._stops.feed(self._utf8.feed(token_bytes)))

    def finish(self) -> list[Event]:
        return _as_events(self._stops.feed(self._utf8.finish()) + self._stops.flush())


def _as_events(text: str) -> list[Event]:
    return [Text(text)] if text else []


def _overlap(text: str, marker: str) -> int:
    """How much of the marker, short of all of it, the text ends with."""
    return next((n for n in range(len(marker) - 1, 0, -1) if text.endswith(marker[:n])), 0)
