"""How fast this environment evaluates prompts, as measured so far."""

from __future__ import annotations

_LEAST_TOKENS = 64  # fewer tell more of the fixed cost of an evaluation than of its speed
_NEWEST_SHARE = 0.5


class PrefillSpeed:
    """An exponentially weighted mean.  The first measurement is left out: weights were still being read from disk."""

    def __init__(self) -> None:
        self.tokens_per_s: float | None = None
        self._warm = False

    def measured(self, n_tokens: int, ms: float) -> None:
        """``n_tokens`` were evaluated in one piece in this time."""
        if n_tokens < _LEAST_TOKENS or ms <= 0:
            return
        if not self._warm:
            self._warm = True
            return
        newest = n_tokens * 1e3 / ms
        before = newest if self.tokens_per_s is None else self.tokens_per_s
        self.tokens_per_s = _NEWEST_SHARE * newest + (1 - _NEWEST_SHARE) * before

    def needed_ms(self, n_tokens: int) -> float:
        """How long this many tokens will take; 0 while that is not known."""
        return 0.0 if self.tokens_per_s is None else n_tokens * 1e3 / self.tokens_per_s
