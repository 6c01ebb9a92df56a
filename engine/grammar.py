"""Grammars over tokens: which may come next, as llguidance computes it.

The library is imported, and told the vocabulary, for the first grammar: requests without one pay nothing.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import numpy as np

from engine.errors import DeadEnd
from engine.sampling import Allowed
from engine.tokenizer import Tokenizer

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer


_MAX_GRAMMAR_CHARS = 4_000_000
_MAX_ITEMS_IN_ROW = 20_000  # a schema with hundreds of optional properties has thousands


class InexpressibleGrammar(Exception):
    """The library does not take a grammar: it is over a limit, or uses what the library does not know."""


class Matcher:
    """The place in a grammar of one text."""

    def __init__(self, matcher: LLMatcher, n_vocab: int) -> None:
        self._matcher = matcher
        self._n_vocab = n_vocab

    def allowed(self) -> Allowed:
        """Which tokens may come next, stop tokens where the text may end.  DeadEnd if none may."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        allowed: Allowed = np.unpackbits(bits, count=self._n_vocab, bitorder="little").view(bool)
        if not allowed.any():
            raise DeadEnd("no token fits the required format here")
        return allowed

    def accept(self, token: int) -> None:
        self._matcher.consume_token(token)
        self._check()

    def forced(self) -> list[int]:
        """The tokens that come next whatever the model says."""
        tokens = self._matcher.compute_ff_tokens()
        return tokens[: self._matcher.validate_tokens(tokens)]

    @property
    def complete(self) -> bool:
        """Nothing may follow."""
        return self._matcher.is_stopped()

    def copy(self) -> Matcher:
        return Matcher(self._matcher.deep_copy(), self._n_vocab)

    def _check(self) -> None:
        if self._matcher.is_error():
            reason = self._matcher.stop_reason()
            raise DeadEnd(f"the required format cannot be followed any further ({reason})")


class GrammarVocabulary:
    """A tokenizer's tokens as the library wants them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._prepared: LLTokenizer | None = None

    def matcher(self, grammar: str) -> Matcher:
        """The beginning of a grammar in llguidance's dialect of Lark.  InexpressibleGrammar says what is wrong."""
        from llguidance import LLMatcher, LLParserLimits

        if len(grammar) > _MAX_GRAMMAR_CHARS:
            raise InexpressibleGrammar(f"it takes more than {_MAX_GRAMMAR_CHARS} characters of grammar")
        limits = LLParserLimits(max_items_in_row=_MAX_ITEMS_IN_ROW, verbose_errors=False)
        matcher = LLMatcher(self._prepare(), grammar, log_level=0, limits=limits)
        if matcher.is_error():
            raise InexpressibleGrammar(_first_line(matcher.get_error()))
        return Matcher(matcher, self.tokenizer.n_vocab)

    def _prepare(self) -> LLTokenizer:
        if self._prepared is None:
            from llguidance import LLTokenizer, TokenizerWrapper

            source = _TokenSource(self.tokenizer)
            # slices would make masks within strings cheaper and this twice as dear
            self._prepared = LLTokenizer(
                TokenizerWrapper(source),
                n_vocab=self.tokenizer.n_vocab,
                eos_token=sorted(self.tokenizer.stop_ids),
                slices=[],
            )
            source.tokens.clear()
        return self._prepared


class _TokenSource:
    """What the library asks of a tokenizer."""

    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id = min(tokenizer.stop_ids)
        self.special_token_ids = sorted(tokenizer.specials.values())
        self.tokens = tokenizer.every_token()

    def __call__(self, text: bytes) -> list[int]:
        """The tokens of a text that is forced.  One the tokenizer would normalize is spelled in bytes."""
        string = text.decode()
        if unicodedata.is_normalized("NFC", string):
            return self._tokenizer.encode(string)
        return [self._tokenizer.byte_ids[byte] for byte in text]


def _first_line(message: str) -> str:
    """What is wrong, without the grammar that the library quotes after it."""
    if message.startswith("panic"):  # of the library; it quotes what it stumbled over
        return "a keyword in it has a value of the wrong type"
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[0].rpartition("failed to compile JSON schema: ")[2].rstrip(":")[:200] if lines else "it is refused"
