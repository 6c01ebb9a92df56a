"""What can go wrong in the engine, in its own terms.  HTTP status codes are the handler's business."""

from __future__ import annotations


class EngineError(Exception):
    """Any failure of the engine; the message is one sentence for the person who can act on it."""


class ModelFileError(EngineError):
    """The file is not a Qwen3.5 GGUF file this engine can run: names it, and what was found and expected."""


class ModelChanged(ModelFileError):
    """The file was written to while it was mapped: what is in memory is neither the old model nor the new one."""


class InvalidPrompt(EngineError):
    """The conversation cannot be rendered.  ``param`` is the request field at fault, such as ``messages[1].role``."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class ContextFull(EngineError):
    """The prompt leaves no room for an answer in the context."""

    def __init__(self, needed: int, available: int) -> None:
        super().__init__(f"{needed} tokens needed, the context holds {available}")
        self.needed = needed
        self.available = available


class TextTooLong(InvalidPrompt):
    """A text so long for its number of tokens that it is not tokenized."""

    code = "context_length_exceeded"

    def __init__(self, n_bytes: int, most_bytes: int, context: int) -> None:
        super().__init__(
            f"the text has {n_bytes} bytes, at most {most_bytes} are read for a context of {context} tokens"
        )
        self.n_bytes = n_bytes
        self.context = context


class OutOfTime(EngineError):
    """The caller's deadline passes before the prompt can be evaluated."""


class Busy(EngineError):
    """Another request holds the engine until after this caller's deadline."""


class NumericFault(EngineError):
    """The model produced logits that are not numbers."""


class DeadEnd(EngineError):
    """No token is both allowed by the required format and possible."""


class OutOfMemory(EngineError):
    """The system, or the configured limit, has no memory for what was asked; says needed and available."""


class UnsupportedCpu(EngineError):
    """The kernel set asked for is not one this CPU runs; names those that are."""
