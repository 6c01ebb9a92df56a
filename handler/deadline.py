"""How long an answer may take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol


class Context(Protocol):
    """What the handler needs of Lambda's context."""

    @property
    def aws_request_id(self) -> str: ...

    @property
    def function_name(self) -> str | None: ...

    def get_remaining_time_in_millis(self) -> int: ...


def deadline(context: Context, margin_ms: float, read_timeout: str | None) -> Callable[[], float]:
    """Milliseconds left of the function's timeout less a margin, and of the client's patience where known.

    `read_timeout` is the seconds after which an OpenAI client stops waiting for the next byte.
    """
    patience_ms = _seconds(read_timeout) * 1000
    begun_s = time.monotonic()

    def remaining_ms() -> float:
        waited_ms = (time.monotonic() - begun_s) * 1000
        return min(context.get_remaining_time_in_millis() - margin_ms, patience_ms - waited_ms)

    return remaining_ms


def _seconds(text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        return math.inf
    return value if value > 0 else math.inf
