"""The answer as server-sent events: OpenAI's chat.completion.chunk objects, and comments between them."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
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
from handler.errors import Problem
from handler.response import Head, call_head, logprobs, timings, usage

HEARTBEAT_S = 10.0
DONE = b"data: [DONE]\n\n"
HEADERS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


def sse(events: Iterable[Event | None], head: Head, *, include_usage: bool) -> Iterator[bytes]:
    """The bytes of the stream.  None among the events is a silence that needs a sign of life."""
    prefilled: Prefilled | None = None
    tokens: list[TokenLogprob] = []

    def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs(tokens), "finish_reason": reason}
        tokens.clear()
        return data({**fields, "choices": [choice], **asked, **more})

    fields = head.fields("chat.completion.chunk")
    asked = {"usage": None} if include_usage else {}
    yield chunk({"role": "assistant", "content": ""})
    for event in events:
        match event:
            case None | Progress():
                yield comment(event)
            case Prefilled():
                prefilled = event
            case TokenLogprob():
                tokens.append(event)
            case Text(text) if text:
                yield chunk({"content": text})
            case Reasoning(text) if text:
                yield chunk({"reasoning_content": text})
            case ToolCall():
                yield chunk({"tool_calls": [call_head(event)]})
            case ToolArguments(index, piece) if piece:
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            case Finished():
                counted = usage(prefilled, event)
                more = {} if include_usage else {"usage": counted}  # who does not ask may still read it
                yield chunk({}, event.reason, timings=timings(prefilled, event), **more)
                if include_usage:
                    yield data({**fields, "choices": [], "usage": counted})
                yield DONE
                return
    raise EOFError("the engine's events ended without Finished")


def sse_error(trouble: Problem) -> bytes:
    """The event that ends a stream which cannot be finished; clients raise it."""
    return data(trouble.body())


def merged(events: Iterable[Event]) -> Iterator[Event]:
    """The same answer in the fewest events, for a stream that arrives all at once."""
    held: Text | Reasoning | ToolArguments | None = None
    for event in events:
        if isinstance(event, Progress):
            continue
        if isinstance(event, TokenLogprob):  # may run ahead of the text held: it joins the next chunk
            yield event
            continue
        joined = _joined(held, event)
        if joined is None and held is not None:
            yield held
        held = joined or (event if isinstance(event, (Text, Reasoning, ToolArguments)) else None)
        if held is None:
            yield event


def _joined(a: Event | None, b: Event) -> Text | Reasoning | ToolArguments | None:
    match a, b:
        case Text(), Text():
            return Text(a.text + b.text)
        case Reasoning(), Reasoning():
            return Reasoning(a.text + b.text)
        case ToolArguments(), ToolArguments() if a.index == b.index:
            return ToolArguments(a.index, a.json + b.json)
    return None


def with_silences(events: Iterator[Event], after_s: float) -> Generator[Event | None, None, None]:
    """The events, and whenever the next one is that long in coming the last Progress again, or None.

    The engine runs in another thread meanwhile, one event at a time; closing this waits for the one in work.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="chat") as worker:
        event: Event | None = None
        while True:
            step = worker.submit(next, events, None)
            while not wait((step,), after_s).done:
                yield event if isinstance(event, Progress) else None
            event = step.result()
            if event is None:
                return
            yield event


def comment(event: Event | None) -> bytes:
    """A sign of life, with the state of the prefill where it is known."""
    if isinstance(event, Progress):
        return b": prefill %d/%d\n\n" % (event.done_tokens, event.total_tokens)
    return b": waiting\n\n"


def data(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"
