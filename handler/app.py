"""The function: an event comes in, the engine answers, the answer leaves in the shape its sender reads."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import Any

from engine.errors import Busy, OutOfTime
from engine.events import Event, Finished, Prefilled
from handler import stream
from handler.auth import check_key
from handler.body import json_object
from handler.deadline import Context, deadline
from handler.errors import MethodNotAllowed, Problem, UnknownPath, problem
from handler.event import (
    HttpRequest,
    Reply,
    direct_request,
    error_reply,
    http_request,
    is_http,
    json_reply,
    lambda_result,
)
from handler.loader import Engine, Loader
from handler.log import set_up
from handler.models import ServedModel
from handler.record import Record
from handler.request import ChatCompletion, read_request, unknown_fields
from handler.response import Head, completion
from handler.settings import Settings, read_settings


@dataclass(frozen=True, slots=True)
class Call:
    """One invocation: what limits it, and where what happens in it is noted."""

    record: Record
    remaining_ms: Callable[[], float]
    streams: bool


class App:
    """Answers one event at a time; a second caller waits for its turn."""

    def __init__(self, settings: Settings, load: Callable[[], Engine]) -> None:
        self.loader = Loader(load)
        self._settings = settings
        self._turn = threading.Lock()
        self._cold = True
        self._routes: dict[str, tuple[str, Callable[[HttpRequest, Call], Reply]]] = {
            "/chat/completions": ("POST", self._chat),
            "/models": ("GET", self._models),
            "/health": ("GET", self._health),
        }

    def handle(self, event: Any, context: Context) -> Any:
        """Lambda's handler.  A Reply leaves as a stream (see runtime.py), anything else as JSON."""
        if isinstance(event, dict) and (event.get("warmup") or event.get("source") == "aws.events"):
            self._cold = False
            return {"warm": True, "model": self.loader.state}
        streams = self._settings.streaming and is_http(event) and event.get("version") == "2.0"
        reply = self._reply(event, context, streams)
        if streams:
            return reply
        return lambda_result(event, reply) if is_http(event) else json.loads(reply.body)

    def _reply(self, event: Any, context: Context, streams: bool) -> Reply:
        """The answer, whatever happens."""
        namespace = self._settings.metrics if context.function_name else "off"
        record = Record(
            context.aws_request_id,
            self._cold,
            context.get_remaining_time_in_millis,
            namespace,
            context.function_name,
        )
        self._cold = False
        try:
            request = http_request(event) if is_http(event) else direct_request(event)
            record.retry_count = request.headers.get("x-stainless-retry-count")
            patience = None if streams else request.headers.get("x-stainless-read-timeout")
            call = Call(record, deadline(context, self._settings.deadline_margin_ms, patience), streams)
            reply = self._route(request, call) if is_http(event) else self._chat(request, call)
        except Exception as failure:  # noqa: BLE001  an exception that escapes costs the whole environment
            reply = error_reply(_reported(failure, record))
        reply.headers["x-request-id"] = context.aws_request_id
        return reply

    def _route(self, request: HttpRequest, call: Call) -> Reply:
        path = request.path.rstrip("/").removeprefix("/v1") or "/health"
        name = "/models" if path.startswith("/models/") else path
        if name not in self._routes:
            raise UnknownPath(
                f"Nothing is served at {request.path[:100]}; there are POST /v1/chat/completions, "
                "GET /v1/models, GET /v1/models/{model} and GET /health."
            )
        method, answer = self._routes[name]
        if request.method == "OPTIONS":  # the function URL answers CORS preflights before they come here
            return Reply(204, {"allow": f"{method}, OPTIONS"})
        if name != "/health":
            check_key(request.headers, self._settings.keys)
        if request.method != method:
            raise MethodNotAllowed(f"{request.method[:20]} is not served here; use {method}.", method)
        return answer(request, call)

    def _health(self, _request: HttpRequest, _call: Call) -> Reply:
        state = self.loader.state
        return json_reply(503 if state == "failed" else 200, {"status": state})

    def _models(self, request: HttpRequest, call: Call) -> Reply:
        model = ServedModel(self.loader.engine(call.remaining_ms()), self._settings.names)
        _, _, asked = request.path.rstrip("/").partition("/models/")
        if not asked:
            return json_reply(200, {"object": "list", "data": [model.card()]})
        model.check(asked)
        return json_reply(200, model.card())

    def _chat(self, request: HttpRequest, call: Call) -> Reply:
        body = json_object(request.body)
        chat = read_request(body)
        call.record.unknown_fields = unknown_fields(body)
        with ExitStack() as turn:
            head, events = self._begin(chat, call, turn)
            if not chat.stream:
                return json_reply(200, completion(events, head))
            usage = bool(chat.stream_options and chat.stream_options.include_usage)
            if not call.streams:
                text = b"".join(stream.sse(stream.merged(events), head, include_usage=usage)).decode()
                return Reply(200, dict(stream.HEADERS), text)
            first = next(events)  # refusals come instead of it, while the status is still open
            beating = stream.with_silences(events, stream.HEARTBEAT_S)
            turn.callback(beating.close)
            chunks = _ended_well(stream.sse(chain([first], beating), head, include_usage=usage), call.record)
            return Reply(200, dict(stream.HEADERS), chunks=chunks, close=turn.pop_all().close)

    def _begin(self, chat: ChatCompletion, call: Call, turn: ExitStack) -> tuple[Head, Generator[Event, None, None]]:
        """The engine's events for this request, and the engine held until `turn` is closed."""
        asked = chat.for_engine(splice=self._settings.splice)
        if call.remaining_ms() <= 0:
            raise OutOfTime("No time is left to answer in; the function's timeout is too short.")
        engine = self.loader.engine(call.remaining_ms())
        call.record.init_ms = self.loader.init_ms
        model = ServedModel(engine, self._settings.names)
        model.check(chat.model)
        if not self._turn.acquire(timeout=max(call.remaining_ms(), 0) / 1000):
            raise Busy("Another request is being answered; try again when it is done.")
        turn.callback(self._turn.release)
        events = _noted(engine.chat(asked, call.remaining_ms), call.record)
        turn.callback(events.close)
        return Head(model.name, engine.fingerprint), events


def _noted(events: Iterator[Event], record: Record) -> Generator[Event, None, None]:
    """The events, logged on their way past where there is something to log."""
    for event in _closing(events):
        if isinstance(event, Prefilled):
            record.prefilled(event)
        elif isinstance(event, Finished):
            record.finished(event)
        yield event


def _closing(events: Iterator[Event]) -> Generator[Event, None, None]:
    yield from events  # which closes them when this is closed


def _ended_well(chunks: Iterator[bytes], record: Record) -> Iterator[bytes]:
    """The chunks; after a failure an error event, because the status is out, and the failure again."""
    try:
        yield from chunks
    except Exception as failure:
        yield stream.sse_error(_reported(failure, record))
        raise


def _reported(failure: Exception, record: Record) -> Problem:
    trouble = problem(failure)
    record.failed(trouble, failure)
    return trouble


_app: App | None = None


def init() -> App:
    """Read the settings and begin loading: once per environment.  SettingsError if a setting is wrong."""
    global _app
    if _app is None:
        settings = read_settings(os.environ)
        set_up(settings.log)
        _app = App(settings, lambda: load_engine(settings))
        _app.loader.start()
    return _app


def handler(event: Any, context: Context) -> Any:
    return init().handle(event, context)


def load_engine(settings: Settings) -> Engine:
    from engine.engine import Engine as LoadedEngine  # imports the native extension: not before it is needed

    return LoadedEngine.load(
        settings.model,
        context=settings.context,
        threads=settings.threads,
        isa=settings.isa,
        memory_bytes=None if settings.memory_mb is None else settings.memory_mb << 20,
        cache_bytes=None if settings.cache_mb is None else settings.cache_mb << 20,
        splice=settings.splice,
    )
