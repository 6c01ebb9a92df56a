"""The log: one flat JSON object per line on stderr, and the same figures as CloudWatch metrics.

Counts, times and names of fields only; never a word of a conversation.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from types import TracebackType
from typing import Any

_logger = logging.getLogger("qwarm")

METRIC_UNITS = {
    "prompt_tokens": "Count",
    "cached_tokens": "Count",
    "prefilled": "Count",
    "prefill_ms": "Milliseconds",
    "prefill_tok_s": "Count/Second",
    "completion_tokens": "Count",
    "decode_ms": "Milliseconds",
    "decode_tok_s": "Count/Second",
    "init_ms": "Milliseconds",
    "remaining_ms": "Milliseconds",
}


class JsonLine(logging.Formatter):
    """A record as one line of JSON; `timestamp` and `level` are the names Lambda filters by."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "timestamp": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up(level: str) -> None:
    """Send this package's records to stderr as JSON lines, whatever else the runtime does with its own."""
    output = logging.StreamHandler(sys.stderr)
    output.setFormatter(JsonLine())
    _logger.handlers[:] = [output]
    _logger.setLevel(level.upper())
    _logger.propagate = False


def log(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log one event; fields that are None are left out."""
    said = {name: value for name, value in fields.items() if value is not None}
    _logger.log(level, event, extra={"fields": said})


def log_metrics(namespace: str, figures: dict[str, Any]) -> None:
    """Write those of the figures that are metrics in CloudWatch's embedded metric format."""
    found = {name: figures[name] for name in METRIC_UNITS if figures.get(name) is not None}
    directive = {
        "Namespace": namespace,
        "Dimensions": [["function_name"]],
        "Metrics": [{"Name": name, "Unit": METRIC_UNITS[name]} for name in found],
    }
    envelope = {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]}
    log("metrics", _aws=envelope, function_name=figures["function_name"], **found)


def frames(traceback: TracebackType | None) -> list[str]:
    """Where a traceback leads, innermost last, without what the exception says: it may quote a caller."""
    places = []
    while traceback:
        code = traceback.tb_frame.f_code
        places.append(f"{code.co_filename}:{traceback.tb_lineno} {code.co_name}")
        traceback = traceback.tb_next
    return places
