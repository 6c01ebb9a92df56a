"""A local server whose engine says what the last message asks for: enough to show all the page can show."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from engine.errors import ContextFull, NumericFault
from engine.events import Event, Prefilled, Progress, Reasoning, Text, ToolArguments, ToolCall
from engine.request import ChatRequest
from handler.local import LocalServer
from tests.handler.scripted import ScriptedEngine, Step, app_with, finished, prefilled


def _pause() -> None:
    time.sleep(0.02)


def _spoken(kind: type[Text | Reasoning], text: str) -> list[Step]:
    words = text.split(" ")
    return [step for word in words[:-1] for step in (kind(word + " "), _pause)] + [kind(words[-1])]


def _read(prompt_tokens: int, restored_at: int, path: str = "extend") -> Prefilled:
    ms = (prompt_tokens - restored_at) * 0.95 + 4
    return replace(prefilled(prompt_tokens, restored_at), path=path, prefill_ms=ms)  # type: ignore[arg-type]


DOGS = (
    "Yes, dogs are welcome in our ground-floor rooms. There is a fee of 15 euros a night, and a basket is in the room."
)
THOUGHTS = "The guest asks for the weather. There is a tool for that, and it needs the city. The hotel is in Oslo."
CODE = "The same request:\n\n```sh\ncurl -N $URL/v1/chat/completions -d @body.json\n```\n\nThe answer is a stream."

SCRIPTS: dict[str, list[Step]] = {
    "Can I bring my dog?": [_read(302, 0, "full"), *_spoken(Text, DOGS), finished(29, decode_ms=610)],
    "What is the weather like?": [
        _read(421, 331),
        *_spoken(Reasoning, THOUGHTS),
        ToolCall(0, "call_1", "get_weather"),
        ToolArguments(0, '{"city": "Oslo", '),
        _pause,
        ToolArguments(0, '"unit": "celsius"}'),
        finished(64, 25, reason="tool_calls", decode_ms=1290),
    ],
    '{"sky": "clear", "celsius": -3}': [
        _read(512, 485),
        *_spoken(Text, "It is a clear day in Oslo with 3 degrees below zero: bring a scarf."),
        finished(18, decode_ms=371),
    ],
    "And with curl?": [_read(3560, 2048, "base"), *_spoken(Text, CODE), finished(31, decode_ms=640)],
    "think": [_read(100, 0, "full"), Reasoning("Hmm <b>so</b>"), Text("A <i>tag</i>"), finished(9, 4)],
    "endless": [_read(100, 0, "full"), *(step for _ in range(3000) for step in (Text("word "), _pause))],
    "slow to read": [Progress(512, 2048), lambda: time.sleep(11.0), _read(2048, 0, "full"), Text("read"), finished(1)],
    "break": [_read(100, 0, "full"), Text("Hel"), NumericFault("the logits are not numbers")],
    "too long": [ContextFull(5000, 4096)],
    "cut off": [_read(100, 0, "full"), Text("half an ans"), finished(3, reason="length", cause="max_tokens")],
}


class PageEngine(ScriptedEngine):
    """Plays the script that the last message names, and repeats any other message."""

    def chat(self, request: ChatRequest, remaining_ms: Callable[[], float]) -> Iterator[Event]:
        text = str(request.messages[-1]["content"])
        self._scripts = [SCRIPTS.get(text, [_read(20, 0, "full"), Text(text), finished(1)])]
        return super().chat(request, remaining_ms)


@contextmanager
def serving(engine: PageEngine) -> Iterator[LocalServer]:
    app = app_with(engine, QWARM_INVOKE_MODE="RESPONSE_STREAM", QWARM_PAGE=True)
    with LocalServer(("127.0.0.1", 0), app) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()
