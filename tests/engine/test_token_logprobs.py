"""Log probabilities follow the text of the answer: its tokens, all of them, in order, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from engine.answer import AnswerParser
from engine.events import Event, Text, TokenLogprob
from engine.token_logprobs import TextLogprobs

TOOLS: tuple[dict[str, Any], ...] = ({"type": "function", "function": {"name": "f"}},)
CALL = ["<tool_call>", "\n", "<", "function", "=f", ">\n", "</", "function", ">\n", "</tool_call>"]


def spoken(tokens: Sequence[str], *, thinking: bool = False, stop: tuple[str, ...] = ()) -> list[Event]:
    """The events of an answer of these tokens, as the engine makes them."""
    parser, logprobs, events = AnswerParser(thinking, TOOLS, stop, True), TextLogprobs(), []
    for token in tokens:
        if not parser.in_reasoning:
            logprobs.add(TokenLogprob(token, token.encode(), -1.0))
        events += logprobs.joined(parser.feed(token.encode()))
        if parser.stopped is not None:
            break
    return [*events, *logprobs.joined(parser.finish())]


def listed(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, TokenLogprob)]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["Hello", ",", " world", "\n"], ["Hello", ",", " world", "\n"]),
        (["a", " <", "b", "> ", "\n", "c"], ["a", " <", "b", "> ", "\n", "c"]),
        (CALL, []),
        (["Look", ":", "\n\n", *CALL], ["Look", ":"]),
        (["Look", ":\n\n", *CALL, "\n", *CALL, "\n\n", "Done", "."], ["Look", ":\n\n", "\n\n", "Done", "."]),
    ],
)
def test_the_tokens_listed_are_those_of_the_text(tokens: list[str], expected: list[str]) -> None:
    assert listed(spoken(tokens)) == expected


def test_reasoning_and_the_line_breaks_after_it_are_not_listed() -> None:
    assert listed(spoken(["hm", "</think>", "\n\n", "Yes", "."], thinking=True)) == ["Yes", "."]


@pytest.mark.parametrize("tokens", [["one", " EN", "D", " two"], ["one", " ", "END", " two"]])
def test_a_stop_strings_tokens_are_not_listed(tokens: list[str]) -> None:
    events = spoken(tokens, stop=("END",))
    assert "".join(event.text for event in events if isinstance(event, Text)) == "one "
    assert "".join(listed(events)).removesuffix("EN") == "one "


def test_a_token_goes_before_the_first_text_that_has_bytes_of_it() -> None:
    events = spoken(["Hello", " world"])
    assert [type(event) for event in events] == [TokenLogprob, Text, TokenLogprob, Text]


def test_a_character_of_several_tokens_lists_them_all() -> None:
    parser, logprobs, events = AnswerParser(False, (), (), False), TextLogprobs(), []
    for piece in (b"\xf0\x9f", b"\x98", b"\x80", b"!"):
        logprobs.add(TokenLogprob("", piece, -1.0))
        events += logprobs.joined(parser.feed(piece))
    found = [event.token_bytes for event in events if isinstance(event, TokenLogprob)]
    assert b"".join(found).decode() == "😀!"
