"""Which special token spellings in a rendered prompt are the template's own, and which are someone's text.

Before rendering, texts are marked with two noncharacters; afterwards special tokens are matched
where no mark forbids it, and the marks are removed.

* ``<`` (whatever special tokens begin with) becomes ``<`` + SPLIT, so that neither a whole spelling
  nor one that the template's next words complete can match.
* A user-defined special such as ``<tool_response>`` at the very start or end of a text stays whole,
  because templates look for it there; SPLIT after it or GLUE before it says that it is text.
* In what an assistant wrote, user-defined specials (``<think>``, ``<tool_call>``) are left alone:
  the model made them, and templates cut the reasoning out by them.

The noncharacters themselves, and lone surrogates, become U+FFFD: no text needs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from engine.tokenizer import Segment, Tokenizer, spelling_pattern

SPLIT, GLUE, PROBE = "\ufdd0", "\ufdd1", "\ufdd2"
"""PROBE is content that no message has: see chat_template."""

_NOT_TEXT = re.compile(f"[\ud800-\udfff{SPLIT}{GLUE}{PROBE}]")


class SpecialMarks:
    """Marks texts for, and splits texts by, one vocabulary's special tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._specials = tokenizer.specials
        self._user_defined = spelling_pattern(tokenizer.user_defined)
        self._user_defined_texts = sorted(tokenizer.user_defined, key=len, reverse=True)
        first = "|".join(sorted({re.escape(spelling[0]) for spelling in tokenizer.specials})) or "(?!)"
        self._start = re.compile(f"(?:{first})")
        self._start_of_control = re.compile(f"(?!{self._user_defined.pattern})(?:{first})")
        self._own = re.compile(f"(?<!{GLUE})(?:{tokenizer.special_pattern.pattern})(?!{SPLIT})")

    def mark(self, value: Any, by_assistant: bool = False) -> Any:
        """A copy of a JSON value with every text in it marked, object keys included."""
        if isinstance(value, str):
            text = value if value.isascii() else _NOT_TEXT.sub("\ufffd", value)
            if by_assistant:
                return self._start_of_control.sub(rf"\g<0>{SPLIT}", text)
            return self._mark_text(text)
        if isinstance(value, dict):
            return {self.mark(key): self.mark(item, by_assistant) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.mark(item, by_assistant) for item in value]
        return value

    def _mark_text(self, text: str) -> str:
        start = len(text) - len(text.lstrip())
        end = max(start, len(text.rstrip()))
        head = self._user_defined.match(text, start)
        if head:
            start = head.end()
        tail = next((s for s in self._user_defined_texts if text.endswith(s, start, end)), "")
        end -= len(tail)
        before = text[:start] + (SPLIT if head else "")
        after = (GLUE if tail else "") + text[end:]
        return before + self._start.sub(rf"\g<0>{SPLIT}", text[start:end]) + after

    def segments(self, rendered: str) -> Iterator[tuple[int, Segment]]:
        """Special ids and marked texts, each with its offset in the rendered text."""
        position = 0
        for match in self._own.finditer(rendered):
            if match.start() > position:
                yield position, rendered[position : match.start()]
            yield match.start(), self._specials[match.group()]
            position = match.end()
        if position < len(rendered):
            yield position, rendered[position:]


def unmarked(text: str) -> str:
    """The text as it was before it was marked."""
    return text.replace(SPLIT, "").replace(GLUE, "")
