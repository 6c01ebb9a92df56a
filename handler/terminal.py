"""The log for a person who watches: a line per request, and how far a long prompt has been read."""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

_ENVELOPE = ("request_id", "cold_start", "init_ms", "remaining_ms")


class TerminalLog(logging.Handler):
    """Writes the records of handler/log.py; what is under ``least`` only if it is progress."""

    def __init__(self, stream: TextIO, least: int) -> None:
        super().__init__()
        self._stream = stream
        self._least = least
        self._open = ""  # the line that the cursor is on

    def emit(self, record: logging.LogRecord) -> None:
        message, fields = record.getMessage(), getattr(record, "fields", {})
        if message == "progress":
            self._show(f"reading     {fields['done_tokens']:,} of {fields['total_tokens']:,} tokens", ends=False)
        elif record.levelno < self._least or message in ("ready", "init"):  # what the greeting says
            return
        elif message == "prefill":
            self._show(_prefill(fields), ends=False)
        elif message == "completion":
            self._show(f"{self._open} | {_completion(fields)}", ends=True)
        else:
            self._close()
            shown = [f"{name}={value}" for name, value in fields.items() if name not in _ENVELOPE]
            self._show(" ".join([f"{message:<11}", *shown]), ends=True)

    def _show(self, line: str, *, ends: bool) -> None:
        """In place of the open line."""
        blank = " " * (len(self._open) - len(line))
        self._stream.write(f"\r{line}{blank}" + ("\n" if ends else ""))
        self._stream.flush()
        self._open = "" if ends else line

    def _close(self) -> None:
        if self._open:
            self._stream.write("\n")
            self._open = ""


def set_up_terminal(level: str) -> None:
    """Send the log to standard error for a person."""
    logger = logging.getLogger("qwarm")
    logger.handlers[:] = [TerminalLog(sys.stderr, logging.getLevelNamesMapping()[level.upper()])]
    logger.setLevel(logging.DEBUG)
    logger.propagate = False


def _prefill(fields: dict[str, Any]) -> str:
    path = fields["prefill_path"] + (" PER_TOKEN" if str(fields["kernel"]).endswith("/per_token") else "")
    reused, computed, ms = fields["restored_at"], fields["prefilled"], fields["prefill_ms"]
    speed = f", {fields['prefill_tok_s']:,.0f} tok/s" if computed else ""
    return f"{path:<11} {reused:,} reused + {computed:,} computed, {ms:,.0f} ms{speed}"


def _completion(fields: dict[str, Any]) -> str:
    n, ms, speed = fields["completion_tokens"], fields["decode_ms"], fields["decode_tok_s"]
    return f"{n:,} tokens, {ms:,.0f} ms" + (f", {speed:,.1f} tok/s" if speed else "") + f", {fields['finish_reason']}"
