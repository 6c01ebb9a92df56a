"""From the bytes of tokens to text that may be sent: whole characters, stop strings, space at the end."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class Utf8Stream:
    """Decodes pieces of UTF-8 and holds back an unfinished character.

    Each maximal ill-formed run of bytes becomes one U+FFFD, as Unicode recommends, however the data is cut.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        return self._decoder.decode(data)

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


class StopStrings:
    """Passes text on up to the first stop string.

    What is held back is the longest end of the text that may still grow into a stop string.  The stop string
    that is complete first wins; of two that end together, the longer.  Time is linear in the text.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._matchers = [_Matcher(stop) for stop in stops if stop]
        self._held = ""
        self.stopped: str | None = None

    def feed(self, text: str) -> str:
        """The text that may be sent; nothing any more once ``stopped``."""
        if self.stopped is not None:
            return ""
        if not self._matchers:
            return text
        for end, char in enumerate(text, 1):
            complete = [matcher.stop for matcher in self._matchers if matcher.push(char)]
            if complete:
                self.stopped = max(complete, key=len)
                return (self._held + text[:end])[: -len(self.stopped)]
        text = self._held + text
        safe = len(text) - max(matcher.length for matcher in self._matchers)
        self._held = text[safe:]
        return text[:safe]

    def flush(self) -> str:
        """What is held back, because no stop string continues across this point."""
        held, self._held = self._held, ""
        for matcher in self._matchers:
            matcher.length = 0
        return "" if self.stopped is not None else held


class _Matcher:
    """Knuth-Morris-Pratt search for one stop string; ``length`` is how much of it the text now ends with."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.length = 0
        self._fallback = [0]  # [n]: the longest proper prefix of stop[:n + 1] that is also its end
        border = 0
        for char in stop[1:]:
            border = self._advance(border, char)
            self._fallback.append(border)

    def push(self, char: str) -> bool:
        self.length = self._advance(self.length, char)
        return self.length == len(self.stop)

    def _advance(self, length: int, char: str) -> int:
        while length and self.stop[length] != char:
            length = self._fallback[length - 1]
        return length + (self.stop[length] == char)


class HeldEnd:
    """Passes text on, except characters of ``kind`` at its end: those wait for what follows."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.held = ""

    def feed(self, text: str) -> str:
        body = text.rstrip(self._kind)
        if not body:
            self.held += text
            return ""
        passed, self.held = self.held + body, text[len(body) :]
        return passed

    def flush(self) -> str:
        held, self.held = self.held, ""
        return held
