"""Which tokens' log probabilities belong to the text of an answer, and go with which piece of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from engine.events import Event, Text, TokenLogprob, ToolArguments, ToolCall


class TextLogprobs:
    """Holds tokens back until their text is sent, and drops those whose text never is.

    Tokens of tool calls, of a stop string and of white space left out are not text of the answer.  A token goes
    before the first text that has bytes of it.
    """

    def __init__(self) -> None:
        self._waiting: deque[TokenLogprob] = deque()
        self._sent_bytes = 0  # of text that the waiting tokens begin with; negative: the last token's rest is due

    def add(self, token: TokenLogprob) -> None:
        self._waiting.append(token)

    def joined(self, events: Sequence[Event]) -> Iterator[Event]:
        """The events with the tokens of their texts before them."""
        for event in events:
            if isinstance(event, Text):
                yield from self._of(event.text.encode())
            elif isinstance(event, (ToolCall, ToolArguments)):
                self.drop()
            yield event

    def drop(self) -> None:
        """What waits is not text."""
        self._waiting.clear()
        self._sent_bytes = 0

    def _of(self, text: bytes) -> Iterator[TokenLogprob]:
        while self._sent_bytes == 0 and self._waiting and _left_out(self._waiting[0].token_bytes, text):
            self._waiting.popleft()
        self._sent_bytes += len(text)
        while self._waiting and self._sent_bytes > 0:
            token = self._waiting.popleft()
            self._sent_bytes -= len(token.token_bytes)
            yield token


def _left_out(token: bytes, text: bytes) -> bool:
    """Whether a token is not where this text begins: the end of a call, or a line break that was cut off."""
    return not (text.startswith(token) or token.startswith(text))
