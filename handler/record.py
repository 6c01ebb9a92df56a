"""What is logged about one request: how it was prefilled, how it ended, or why it was refused."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.events import Finished, Prefilled
from handler.errors import Problem, problem
from handler.log import frames, log, log_metrics
from handler.response import per_second

_MAX_PLACES = 20  # of a schema
_NAME = re.compile(r"[A-Za-z0-9_.:$~-]{0,64}")
_OF_THE_FILE = ("model_unavailable", "model_changed")  # failures that say nothing of a caller


@dataclass(slots=True)
class Record:
    """The facts of one request, and the figures gathered while it is answered."""

    request_id: str
    cold_start: bool
    remaining_ms: Callable[[], float]
    metrics_namespace: str
    function_name: str | None
    init_ms: float | None = None
    retry_count: str | None = None
    unknown_fields: list[str] = field(default_factory=list)
    _figures: dict[str, Any] = field(default_factory=dict)

    def prefilled(self, event: Prefilled) -> None:
        facts = {"prefill_path": event.path, **asdict(event)}
        del facts["path"]
        facts |= {
            "cached_tokens": event.restored_at,
            "prefill_ms": round(event.prefill_ms, 1),
            "prefill_tok_s": per_second(event.prefilled, event.prefill_ms),
            "diverge_had": event.diverge_had or None,
            "diverge_got": event.diverge_got or None,
        }
        self._figures = facts
        log("prefill", **facts, **self._common(), unknown_fields=self.unknown_fields or None)

    def finished(self, event: Finished) -> None:
        facts: dict[str, Any] = {
            "completion_tokens": event.completion_tokens,
            "reasoning_tokens": event.reasoning_tokens,
            "decode_ms": round(event.decode_ms, 1),
            "decode_tok_s": per_second(event.completion_tokens, event.decode_ms),
            "finish_reason": event.reason,
            "stop": event.cause,
            "relaxed": [_names_only(place) for place in event.relaxed[:_MAX_PLACES]] or None,
        }
        common = self._common()
        log("completion", **facts, **common, retry_count=_count(self.retry_count))
        if self.metrics_namespace != "off":
            figures = {**common, **self._figures, **facts, "function_name": self.function_name}
            log_metrics(self.metrics_namespace, figures)

    def failed(self, trouble: Problem, failure: Exception) -> None:
        """One line: who reads the log learns what was wrong, and nothing the caller wrote."""
        if trouble.status < 500:
            log("refused", **self._common(), status=trouble.status, code=trouble.code, param=trouble.param)
            return
        log(
            "failed",
            level=logging.ERROR,
            **self._common(),
            status=trouble.status,
            code=trouble.code,
            error=type(failure).__name__,
            reason=str(failure) if trouble.code in _OF_THE_FILE else None,
            frames=frames(failure.__traceback__) if trouble.status == 500 else None,
        )

    def _common(self) -> dict[str, Any]:
        return {
            "request_id": self.request_id,
            "cold_start": self.cold_start,
            "init_ms": self.init_ms if self.cold_start else None,
            "remaining_ms": int(self.remaining_ms()),
        }


def reported(failure: Exception, record: Record) -> Problem:
    """What to tell the caller about a failure, once it is logged."""
    trouble = problem(failure)
    record.failed(trouble, failure)
    return trouble


def _names_only(place: str) -> str:
    """A place in a schema, without what in it is no name: a caller may have written anything there."""
    return "/".join(part if _NAME.fullmatch(part) else "*" for part in place.split("/"))


def _count(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 6 else 0
