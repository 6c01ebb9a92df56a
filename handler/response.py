"""The answer as OpenAI's chat.completion object, and the parts its chunks share."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.events import (
    Event,
    Finished,
    Prefilled,
    Progress,
    Reasoning,
    Text,
    TokenLogprob,
    ToolArguments,
    ToolCall,
)


@dataclass(frozen=True, slots=True)
class Head:
    """The fields that every object of one answer repeats."""

    model: str
    fingerprint: str
    kind: str = "chatcmpl"
    number: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    def fields(self, name: str) -> dict[str, Any]:
        return {
            "id": f"{self.kind}-{self.number}",
            "object": name,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }


def completion(events: Iterable[Event], head: Head) -> dict[str, Any]:
    """The whole answer in one object."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[dict[str, Any]] = []
    tokens: list[TokenLogprob] = []
    prefilled: Prefilled | None = None
    for event in events:
        match event:
            case Prefilled():
                prefilled = event
            case Text(text):
                content.append(text)
            case Reasoning(text):
                reasoning.append(text)
            case ToolCall():
                calls.append(call_head(event))
            case ToolArguments(index, json):
                calls[index]["function"]["arguments"] += json
            case TokenLogprob():
                tokens.append(event)
            case Finished():
                choice = {
                    "index": 0,
                    "message": _message("".join(content), "".join(reasoning), calls),
                    "logprobs": logprobs(tokens),
                    "finish_reason": event.reason,
                }
                return {
                    **head.fields("chat.completion"),
                    "choices": [choice],
                    "usage": usage(prefilled, event),
                    "timings": timings(prefilled, event),
                }
            case Progress():
                pass
    raise EOFError("the engine's events ended without Finished")


def _message(content: str, reasoning: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None, "annotations": []}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["content"] = content or None
        message["tool_calls"] = [{name: call[name] for name in ("id", "type", "function")} for call in calls]
    return message


def call_head(call: ToolCall) -> dict[str, Any]:
    """A tool call before its arguments; `index` is the chunks' only."""
    return {
        "index": call.index,
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": ""},
    }


def logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, Any] | None:
    if not tokens:
        return None
    content = [
        {
            **_token(token.text, token.token_bytes, token.logprob),
            "top_logprobs": [_token(*alternative) for alternative in token.top],
        }
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def _token(text: str, raw: bytes, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": finite(logprob), "bytes": list(raw)}


def finite(logprob: float) -> float:
    """OpenAI's number for a token that cannot come: JSON has no -inf."""
    return max(logprob, -9999.0)


def usage(prefilled: Prefilled | None, finished: Finished) -> dict[str, Any]:
    prompt = prefilled.prompt_tokens if prefilled else 0
    return {
        "prompt_tokens": prompt,
        "completion_tokens": finished.completion_tokens,
        "total_tokens": prompt + finished.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": prefilled.restored_at if prefilled else 0},
        "completion_tokens_details": {"reasoning_tokens": finished.reasoning_tokens},
    }


def timings(prefilled: Prefilled | None, finished: Finished) -> dict[str, Any]:
    """Counts and times under llama-server's names, and where the prefill started."""
    cached, n_prompt, prompt_ms = (
        (prefilled.restored_at, prefilled.prefilled, prefilled.prefill_ms) if prefilled else (0, 0, 0.0)
    )
    return {
        "cache_n": cached,
        **_pace("prompt", n_prompt, prompt_ms),
        **_pace("predicted", finished.completion_tokens, finished.decode_ms),
        "prefill_path": prefilled.path if prefilled else None,
    }


def _pace(prefix: str, n: int, ms: float) -> dict[str, Any]:
    return {
        f"{prefix}_n": n,
        f"{prefix}_ms": round(ms, 3),
        f"{prefix}_per_token_ms": round(ms / n, 3) if n else 0.0,
        f"{prefix}_per_second": per_second(n, ms),
    }


def per_second(n: int, ms: float) -> float:
    return round(n * 1000 / ms, 2) if ms > 0 else 0.0
