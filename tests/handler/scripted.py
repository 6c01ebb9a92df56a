"""An engine that answers from a script, and the little around it that a test of the handler needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import models

from engine.chat_template import Rendered
from engine.events import Event, Finished, Prefilled, Text
from engine.request import ChatRequest
from engine.stages import Stages
from handler.app import App
from handler.loader import Engine
from handler.settings import Settings

Step = Event | Exception | Callable[[], object]  # say it, raise it, or do it

KEY = "sk-test"


def prefilled(prompt_tokens: int = 46, restored_at: int = 0) -> Prefilled:
    return Prefilled(
        path="base" if restored_at else "full",
        prompt_tokens=prompt_tokens,
        lcp=restored_at,
        restored_at=restored_at,
        prefilled=prompt_tokens - restored_at,
        prefill_ms=20.0,
        batch_rows=prompt_tokens - restored_at,
        kernel="scripted/per_token",
        slot=0,
        slots_used=1,
        snapshot_bytes=1024,
        evictions=0,
        spliced=0,
    )


def finished(completion_tokens: int = 2, reasoning_tokens: int = 0, **other: Any) -> Finished:
    fields = {"reason": "stop", "cause": "eos", "decode_ms": 10.0, **other}
    return Finished(completion_tokens=completion_tokens, reasoning_tokens=reasoning_tokens, **fields)


def said(*texts: str) -> list[Step]:
    """The script of an answer in these pieces."""
    return [prefilled(), *(Text(text) for text in texts), finished(len(texts))]


def panic() -> None:
    """What PyO3 raises where a library written in Rust panics; the message is about a slice."""
    models.BPE(vocab={"a": 0, "b": 1, "ab": 2}, merges=[("a", "b")], continuing_subword_prefix="##")


class ScriptedEngine:
    """Plays one script per request, the last one again and again; remembers what it was asked."""

    model_name = "qwen3.5-scripted"
    context = 4096
    isa = "scripted"
    fingerprint = "fp_scripted"
    load_ms = 1.0
    page_in = None

    def __init__(self, *scripts: Sequence[Step]) -> None:
        self.stages = Stages()
        self._scripts = list(scripts) or [said("Hello", " world")]
        self.requests: list[ChatRequest] = []
        self.prompts: list[str | Sequence[int]] = []
        self.ended = 0  # answers that were finished, failed or closed
        self.remaining_ms: Callable[[], float] = lambda: 0.0
        self.idle_ms: list[float] = []

    def idle(self, within_ms: float) -> None:
        self.idle_ms.append(within_ms)

    def chat(self, request: ChatRequest, remaining_ms: Callable[[], float]) -> Iterator[Event]:
        yield from self._play(request, remaining_ms)

    def complete(
        self, prompt: str | Sequence[int], request: ChatRequest, remaining_ms: Callable[[], float]
    ) -> Iterator[Event]:
        self.prompts.append(prompt)
        yield from self._play(request, remaining_ms)

    def tokenize(self, text: str, *, specials: bool = True) -> list[int]:
        """One token a byte; with ``specials``, token 256 for <|im_end|>."""
        head, special, tail = text.partition("<|im_end|>") if specials else (text, "", "")
        return [*head.encode(), *([256] if special else []), *tail.encode()]

    def token_bytes(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else b""

    def render(self, request: ChatRequest) -> Rendered:
        text = "".join(f"<{message['role']}>{message['content']}" for message in request.messages)
        return Rendered(list(text.encode()), text, None, None, None, None, False)

    def _play(self, request: ChatRequest, remaining_ms: Callable[[], float]) -> Iterator[Event]:
        self.requests.append(request)
        self.remaining_ms = remaining_ms
        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        try:
            for step in script:
                if isinstance(step, Exception):
                    raise step
                if callable(step):
                    step()
                else:
                    yield step
        finally:
            self.ended += 1


@dataclass
class LambdaContext:
    """Lambda's context, with as much time left as the test says."""

    remaining: int = 60_000
    aws_request_id: str = "11111111-2222-4333-8444-555555555555"
    function_name: str | None = "qwarm-test"

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining


def app_with(engine: ScriptedEngine, **settings: Any) -> App:
    return app_loading(lambda: engine, **settings)


def app_loading(load: Callable[[], Engine], **settings: Any) -> App:
    return App(Settings(**{"QWARM_API_KEY": KEY, **settings}), load)


def url_event(
    body: Any = None,
    path: str = "/v1/chat/completions",
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A function-URL event with the test's key in it."""
    event: dict[str, Any] = {
        "version": "2.0",
        "rawPath": path,
        "headers": {"authorization": f"Bearer {KEY}", "content-type": "application/json", **(headers or {})},
        "requestContext": {"stage": "$default", "http": {"method": method, "path": path}},
        "isBase64Encoded": False,
    }
    if body is not None:
        event["body"] = body if isinstance(body, str) else json.dumps(body)
    return event


def chat(text: Any = "Hi", **fields: Any) -> dict[str, Any]:
    """The body of a request with one user message."""
    return {"model": "qwen3.5-0.8b", "messages": [{"role": "user", "content": text}], **fields}


def post(app: App, body: Any, **event: Any) -> tuple[int, Any]:
    """Status and parsed body of a buffered answer."""
    result = app.handle(url_event(body, **event), LambdaContext())
    return result["statusCode"], json.loads(result["body"])


def sse_chunks(text: str) -> list[Any]:
    """The JSON events of a stream; "[DONE]" as itself; comments left out."""
    data = [block.removeprefix("data: ") for block in text.split("\n\n") if block.startswith("data: ")]
    return [item if item == "[DONE]" else json.loads(item) for item in data]
