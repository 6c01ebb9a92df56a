"""Earlier answers as the tokens that were generated, not as a template renders them again.

The ids of tool calls are minted here, so an id that comes back is a handle on the exact tokens of the answer it was
made in.  A client that dropped the reasoning, or a template that prints ``true`` as ``True``, then still sends a
prompt that extends the live state.  Only answers after the last user message are spliced: the template itself drops
the reasoning of earlier ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.tokenizer import Tokenizer

_ANSWERS_KEPT = 256


@dataclass(frozen=True, slots=True)
class Answer:
    """One generated answer: its tokens from the anchor on, and what a client saw of it."""

    tokens: tuple[int, ...]
    content: str
    calls: tuple[tuple[str, str, Any], ...]  # id, function name, arguments


class Splicer:
    """Remembers the latest answers that called tools, and puts their tokens into later prompts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._answers: OrderedDict[str, Answer] = OrderedDict()  # by the id of the first call
        self._turn_start = tokenizer.specials.get("<|im_start|>")
        self._turn_end = tokenizer.specials.get("<|im_end|>")
        self._role = tokenizer.encode("assistant\n")

    def remember(self, answer: Answer) -> None:
        """Keep an answer with at least one call."""
        self._answers[answer.calls[0][0]] = answer
        while len(self._answers) > _ANSWERS_KEPT:
            self._answers.popitem(last=False)

    def splice(self, ids: Sequence[int], messages: Sequence[Mapping[str, Any]]) -> tuple[list[int], int]:
        """The prompt with known answers as generated, and how many tokens come from them."""
        known = self._known(messages)
        if not known:
            return list(ids), 0
        bodies = self._assistant_bodies(ids)
        n_answers = sum(message["role"] == "assistant" for message in messages)
        if len(bodies) != n_answers:  # not the turns of this family: leave the prompt as rendered
            return list(ids), 0
        spliced: list[int] = []
        done = count = 0
        for number, answer in known:
            start, end = bodies[number]
            if tuple(ids[start:end]) == answer.tokens:
                continue
            spliced += [*ids[done:start], *answer.tokens]
            done = end
            count += len(answer.tokens)
        return spliced + list(ids[done:]), count

    def _known(self, messages: Sequence[Mapping[str, Any]]) -> list[tuple[int, Answer]]:
        """Answers of the tool loop in progress that are unchanged: their number among assistant messages."""
        last_user = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=-1)
        found = []
        number = -1
        for index, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            number += 1
            calls = message.get("tool_calls") or ()
            answer = self._answers.get(calls[0].get("id") or "") if calls else None
            if index > last_user and answer is not None and _unchanged(message, answer):
                found.append((number, answer))
        return found

    def _assistant_bodies(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Where each finished assistant turn's text begins and ends."""
        bodies = []
        start: int | None = None
        for index, token in enumerate(ids):
            if token == self._turn_start:
                body = index + 1 + len(self._role)
                start = body if list(ids[index + 1 : body]) == self._role else None
            elif token == self._turn_end and start is not None:
                bodies.append((start, index))
                start = None
        return bodies


def _unchanged(message: Mapping[str, Any], answer: Answer) -> bool:
    """Whether a client's message still says what was generated."""
    said = tuple(
        (call.get("id"), call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]
    )
    content = message.get("content")
    return said == answer.calls and (content or "").strip() == answer.content.strip()
