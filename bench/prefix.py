"""What prefix reuse saves: request sequences of agents, their prefill paths, and times against the full prefill.

python bench/prefix.py MODEL [--threads 2]

Every answer is one token: only prefill is measured.  Each case runs several times in fresh engines of one process;
its time is the median, as a ratio to the median full prefill of the same prompt shape.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.engine import Engine
from engine.events import Prefilled
from engine.request import ChatRequest, Sampling
from engine.snapshots import SnapshotPlaces

EVENT = Path(__file__).parents[1] / "events" / "chat_tools.json"
Message = dict[str, Any]


class Conversation:
    """The recorded agent request, and what can be asked after it."""

    def __init__(self) -> None:
        body = json.loads(json.loads(EVENT.read_text())["body"])
        self.system: Message = body["messages"][0]
        self.user: Message = body["messages"][1]
        self.tools = tuple(body["tools"])

    def ask(self, *messages: Message, thinking: bool = False) -> ChatRequest:
        return ChatRequest(
            messages=(self.system, *messages),
            tools=self.tools,
            thinking=thinking,
            sampling=Sampling(temperature=0),
            max_tokens=1,
        )

    def step(self, number: int) -> list[Message]:
        call = {
            "id": f"other_{number}",
            "type": "function",
            "function": {"name": "search", "arguments": {"query": "x"}},
        }
        result = {"role": "tool", "tool_call_id": f"other_{number}", "content": f"Result {number} of the search."}
        return [{"role": "assistant", "content": "", "tool_calls": [call]}, result]


def prefill(engine: Engine, request: ChatRequest) -> Prefilled:
    events = list(engine.chat(request, lambda: 1e9))
    return next(event for event in events if isinstance(event, Prefilled))


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def cases(c: Conversation) -> list[tuple[str, list[ChatRequest]]]:
    """A name, and requests of which the last one is measured."""
    first = c.ask(c.user)
    answered = {"role": "assistant", "content": "It is done."}
    loop = [c.user]
    steps = [first]
    for number in range(3):
        loop = [*loop, *c.step(number)]
        steps.append(c.ask(*loop))
    others = [c.ask(user(f"Another question, number {number}.")) for number in range(7)]
    return [
        ("A  first", [first]),
        ("D  the same again", [first, first]),
        ("B  another short tail", [first, c.ask(user("And the opening hours?"))]),
        ("B  another tail of about 100 tokens", [first, c.ask(user("Tell me more. " * 25))]),
        ("X, Y, X", [first, others[0], first]),
        ("8 conversations in turn", [first, *others, first]),
        ("next user message", [first, c.ask(c.user, answered, user("And tomorrow?"))]),
        ("tool step", [first, steps[1]]),
        ("next user message after 3 tool steps", [*steps, c.ask(*loop, answered, user("And tomorrow?"))]),
        ("edited last message", [first, c.ask(user(c.user["content"] + " Please."))]),
        ("thinking switched on", [first, c.ask(c.user, thinking=True)]),
    ]


def measure(load: Callable[[], Engine], requests: Sequence[ChatRequest], repeat: int) -> tuple[Prefilled, float]:
    """The last request's prefill, and the median of its time in ms."""
    runs = []
    for _ in range(repeat):
        engine = load()
        runs.append([prefill(engine, request) for request in requests][-1])
    return runs[-1], statistics.median(run.prefill_ms for run in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what prefix reuse saves.")
    parser.add_argument("model")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    conversation = Conversation()

    def load(places: SnapshotPlaces | None = None) -> Engine:
        return Engine.load(args.model, context=4096, threads=args.threads, cache_bytes=2 << 30, places=places)

    prefill(load(), conversation.ask(conversation.user))  # reads the file into memory
    full_ms = None
    print(f"{'':<40} {'path':<14} {'prompt':>6} {'prefilled':>9} {'ms':>7} {'of full':>8}")
    for name, requests in cases(conversation):
        facts, median_ms = measure(load, requests, args.repeat)
        full_ms = full_ms or median_ms
        report(name, facts, median_ms, full_ms)
    with tempfile.TemporaryDirectory() as folder:
        places = SnapshotPlaces(directory=folder)
        engine = load(places)
        prefill(engine, conversation.ask(conversation.user))
        engine.idle(60_000)
        facts, median_ms = measure(lambda: load(places), [conversation.ask(user("A new start."))], args.repeat)
        report("another process, snapshot on disk", facts, median_ms, full_ms or median_ms)


def report(name: str, facts: Prefilled, median_ms: float, full_ms: float) -> None:
    print(
        f"{name:<40} {facts.path:<14} {facts.prompt_tokens:>6} {facts.prefilled:>9} "
        f"{median_ms:>7.1f} {median_ms / full_ms:>8.3f}"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
