"""What the engine is asked to do, after the handler has checked the outside world's version of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen.  Neutral values switch a rule off."""

    temperature: float = 1.0  # 0: the largest logit, ties to the lower id
    top_k: int = 0  # 0: all
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether a call may, must not or must be made; ``name`` only with ``mode == "named"``."""

    mode: Literal["auto", "none", "required", "named"] = "auto"
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """The answer is JSON for a schema.  ``strict``: refused unless all of the schema can be enforced."""

    schema: Mapping[str, Any]
    strict: bool = False


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One conversation to answer.

    ``messages`` are what the chat template gets: roles system, user, assistant, tool; content a string;
    ``tool_calls`` with parsed ``arguments`` objects and their ``id``; ``reasoning_content`` if known.
    ``tools`` are ``{"type": "function", "function": {"name", "description", "parameters"}}``, key order as sent.
    ``thinking`` None: the model file's own template decides.
    """

    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool = True
    response_format: ResponseFormat | None = None  # None: text
    thinking: bool | None = None
    thinking_budget: int | None = None  # tokens, after which the think block is closed; None: no limit
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    sampling: Sampling = Sampling()
    max_tokens: int | None = None  # None: what context and deadline leave
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None  # None: no logprobs
    splice: bool = True
    continue_final: bool = False  # the last message is the beginning of the answer
