"""Where the time of a start goes."""

from __future__ import annotations

import time


class Stages:
    """The parts of a start, one after the other, in milliseconds: each lasts from the end of the one before it."""

    def __init__(self, begun_s: float | None = None) -> None:
        """``begun_s``: the beginning on time.perf_counter()'s clock, if it was earlier than now."""
        self.ms: dict[str, float] = {}
        self._begun_s = self._last_s = time.perf_counter() if begun_s is None else begun_s

    def end(self, name: str) -> None:
        """The stage of this name ends now."""
        now_s = time.perf_counter()
        self.ms[name] = (now_s - self._last_s) * 1e3
        self._last_s = now_s

    @property
    def total_ms(self) -> float:
        """From the beginning to the end of the last stage."""
        return (self._last_s - self._begun_s) * 1e3
