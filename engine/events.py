"""What the engine says while it answers one request: one stream of small events.

The handler makes the SSE chunks, the completion body and the log records from these and from
nothing else.  Order: ``Progress``* ``Prefilled`` then any of ``Reasoning``, ``Text``, ``ToolCall``,
``ToolArguments``, and ``Finished`` last.  An exception may end the stream instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PrefillPath = Literal[
    "extend",
    "anchor",
    "turn_anchor",
    "base",
    "spare",
    "snapshot_tmp",
    "snapshot_s3",
    "snapshot_baked",
    "full",
]
FinishReason = Literal["stop", "length", "tool_calls"]
StopCause = Literal["eos", "stop_string", "max_tokens", "context", "deadline", "one_tool_call"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Part of the prompt was evaluated; sent between pieces of a long prefill."""

    done_tokens: int
    total_tokens: int


@dataclass(frozen=True, slots=True)
class Prefilled:
    """The whole prompt is in the model's state.  Counts are the C engine's."""

    path: PrefillPath
    prompt_tokens: int
    lcp: int  # tokens equal to the best cached timeline
    restored_at: int  # position of the state the prefill started from: the cached tokens
    prefilled: int  # tokens evaluated for this prompt; 0 if it is the previous one again
    prefill_ms: float
    batch_rows: int  # most rows of one evaluation
    kernel: str  # kernel set and multiplication path, "i8mm/gemm_i8"; "i8mm/none" if nothing was evaluated
    slot: int
    slots_used: int
    snapshot_bytes: int
    evictions: int
    spliced: int  # tokens of earlier answers used as generated, not as rendered
    diverge_at: int | None = None  # where the prompt left the cached timeline, if reuse fell short of it
    diverge_had: tuple[int, ...] = ()  # token ids cached there
    diverge_got: tuple[int, ...] = ()  # token ids of this prompt there


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text of the think block."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """Text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call begins.  ``index`` counts from 0 within the answer."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """The next piece of a call's arguments; the pieces joined are one JSON object."""

    index: int
    json: str


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One generated token of the answer with its log probability, and the best alternatives."""

    text: str
    token_bytes: bytes
    logprob: float
    top: tuple[tuple[str, bytes, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is complete."""

    reason: FinishReason
    cause: StopCause
    completion_tokens: int
    reasoning_tokens: int
    decode_ms: float
    stop: str | None = None  # the stop string that ended the answer
    relaxed: tuple[str, ...] = ()  # places in schemas of which less was enforced than they ask for


Event = Progress | Prefilled | Reasoning | Text | ToolCall | ToolArguments | TokenLogprob | Finished
