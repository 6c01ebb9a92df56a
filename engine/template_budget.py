"""What one rendering of a template may take: steps, which stand for time, and bytes of what it makes.

A step is about a node of the template that is evaluated, a part of a list or 64 bytes of text that are looked at; two
million are about a second.  Counting instead of measuring makes a refusal the same on every machine.
"""

from __future__ import annotations

from sys import getsizeof
from typing import Any, TypeVar

from jinja2.exceptions import SecurityError

MAX_STEPS = 1 << 23
MAX_MADE_BYTES = 1 << 27
_BYTES_PER_STEP = 64
_LISTS = {list, tuple, type({}.items()), type({}.keys()), type({}.values())}
_PART_BYTES = 32  # of a value in a list

T = TypeVar("T")


class Budget:
    """What is left for one rendering.  Every method but ``renew`` raises SecurityError once it is not enough."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin a rendering."""
        self._steps = MAX_STEPS
        self._bytes = MAX_MADE_BYTES

    @property
    def steps_taken(self) -> int:
        return MAX_STEPS - self._steps

    def spend(self, steps: int) -> None:
        if not 0 <= steps <= self._steps:
            raise SecurityError(f"the template takes more than {MAX_STEPS} steps in one rendering")
        self._steps -= steps

    def reserve(self, n_bytes: int) -> None:
        """Make sure that this much can still be made."""
        if n_bytes > self._bytes:
            raise SecurityError(f"the template makes more than {MAX_MADE_BYTES} bytes in one rendering")

    def look(self, value: Any) -> int:
        """Pay for going through a value, and return its size."""
        if type(value) is str:
            n_bytes = getsizeof(value)
            self.spend(n_bytes // _BYTES_PER_STEP + 1)
        else:
            n_bytes, n_parts = self._size(value)
            self.spend(n_bytes // _BYTES_PER_STEP + n_parts)
        return n_bytes

    def make(self, value: T) -> T:
        """Pay for a new value, and return it."""
        n_bytes = self.look(value)
        self.reserve(n_bytes)
        self._bytes -= n_bytes
        return value

    def _size(self, value: Any) -> tuple[int, int]:
        """Bytes and parts of a value written out: what it has twice counts twice, as it does in text."""
        n_bytes = n_parts = 0
        pending = [value]
        while pending:
            item = pending.pop()
            kind = type(item)
            n_parts += 1
            n_bytes += _PART_BYTES
            if kind is str:
                n_bytes += getsizeof(item)
            elif kind is dict:
                pending += item
                pending += item.values()
            elif kind in _LISTS:
                pending += item
            elif kind is range:
                n_parts += len(item)
                n_bytes += len(item) * _PART_BYTES
            if n_bytes > self._bytes:
                self.reserve(n_bytes)
        return n_bytes, n_parts
