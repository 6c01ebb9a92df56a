"""Failures of a request, and the one table from exception to HTTP status, OpenAI error type and code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.errors import (
    Busy,
    ContextFull,
    DeadEnd,
    EngineError,
    InvalidPrompt,
    ModelChanged,
    ModelFileError,
    NumericFault,
    OutOfMemory,
    OutOfTime,
    TextTooLong,
    UnsupportedCpu,
)


class RequestError(Exception):
    """The request cannot be served.  The message is one sentence for the caller; ``param`` is the field."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class BadRequest(RequestError):
    """The body is not a chat-completions request this function can honor."""


class Unauthorized(RequestError):
    """No API key, or a wrong one."""


class UnknownPath(RequestError):
    """Nothing is served at this path."""


class UnknownModel(RequestError):
    """The model asked for is not the one served."""


class MethodNotAllowed(RequestError):
    """The path exists, not with this method.  ``allow`` is the method it has."""

    def __init__(self, message: str, allow: str) -> None:
        super().__init__(message)
        self.allow = allow


class BodyTooLarge(RequestError):
    """The request body is over the limit."""


class UnsupportedEncoding(RequestError):
    """The request body is compressed."""


class KeysUnavailable(RequestError):
    """The API keys could not be read from where they are kept."""


class ModelNotFetched(EngineError):
    """The model's file cannot be brought to this machine: says from where, and why."""


class ModelLoading(RequestError):
    """The model is not loaded yet, and the caller's time is up."""


class AnswerTooLarge(RequestError):
    """The answer exceeds what a buffered invocation can carry."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What the caller is told about a failure."""

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


_RETRY_SOON = {"retry-after": "1"}
_NO_RETRY = {"x-should-retry": "false"}  # OpenAI clients obey it; another try would fail alike

_TABLE: dict[type[Exception], tuple[int, str, str, Mapping[str, str]]] = {
    BadRequest: (400, "invalid_request_error", "invalid_value", {}),
    InvalidPrompt: (400, "invalid_request_error", "invalid_value", {}),
    ContextFull: (400, "invalid_request_error", "context_length_exceeded", {}),
    Unauthorized: (401, "invalid_request_error", "invalid_api_key", {"www-authenticate": "Bearer"}),
    UnknownPath: (404, "invalid_request_error", "unknown_url", {}),
    UnknownModel: (404, "invalid_request_error", "model_not_found", {}),
    MethodNotAllowed: (405, "invalid_request_error", "method_not_allowed", {}),
    BodyTooLarge: (413, "invalid_request_error", "request_too_large", {}),
    UnsupportedEncoding: (415, "invalid_request_error", "unsupported_media_type", {}),
    DeadEnd: (400, "invalid_request_error", "unsatisfiable_format", {}),
    NumericFault: (500, "server_error", "numeric_fault", {}),
    OutOfMemory: (500, "server_error", "out_of_memory", _NO_RETRY),
    AnswerTooLarge: (500, "server_error", "response_too_large", _NO_RETRY),
    ModelFileError: (500, "server_error", "model_unavailable", _NO_RETRY),
    ModelChanged: (503, "server_error", "model_changed", _NO_RETRY),
    UnsupportedCpu: (500, "server_error", "model_unavailable", _NO_RETRY),
    ModelNotFetched: (503, "server_error", "model_unavailable", {"retry-after": "3"}),
    ModelLoading: (503, "server_error", "model_loading", {"retry-after": "3"}),
    KeysUnavailable: (503, "server_error", "keys_unavailable", {"retry-after": "3"}),
    Busy: (503, "server_error", "busy", _RETRY_SOON),
    OutOfTime: (504, "server_error", "deadline_exceeded", _NO_RETRY),
}
_NOT_FOR_CALLERS = {
    "model_unavailable": "The model could not be loaded; the function's log says why.",
    "model_changed": "The model file was changed while it was in use; the function has to be started again.",
}


def problem(failure: BaseException) -> Problem:
    """What to tell the caller.  An exception that is not in the table says nothing of itself."""
    row = next((_TABLE[cls] for cls in type(failure).__mro__ if cls in _TABLE), None)
    if row is None or not isinstance(failure, (RequestError, EngineError)):
        return Problem(500, "server_error", "internal_error", "The server failed to answer this request.")
    status, kind, code, headers = row
    return Problem(
        status,
        kind,
        getattr(failure, "code", None) or code,
        _NOT_FOR_CALLERS.get(code) or _message(failure),
        getattr(failure, "param", None),
        {**headers, "allow": failure.allow} if isinstance(failure, MethodNotAllowed) else headers,
    )


def _message(failure: Exception) -> str:
    """OpenAI's own sentence where clients look for it, else the failure's."""
    if isinstance(failure, ContextFull):
        return (
            f"This model's maximum context length is {failure.available} tokens. However, your messages "
            f"resulted in {failure.needed} tokens. Please reduce the length of the messages."
        )
    if isinstance(failure, TextTooLong):  # in the words by which clients know this error
        return (
            f"This model's maximum context length is {failure.context} tokens. However, your text has "
            f"{failure.n_bytes} bytes, which is too long to fit. Please reduce the length of the messages."
        )
    return str(failure)
