"""Answers conversations and text completions, one at a time, whole or in pieces."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Protocol

from engine.errors import Busy, OutOfTime
from engine.events import Event, Finished, Prefilled, Progress
from handler import stream
from handler.body import json_object
from handler.completions import read_completion, text_completion, text_sse
from handler.event import HttpRequest, Reply, json_reply
from handler.loader import Engine, Loader
from handler.log import log
from handler.models import ServedModel
from handler.options import Options
from handler.panic import PanicsAsErrors
from handler.record import Record, reported
from handler.request import read_request, unknown_fields
from handler.response import Head, completion
from handler.settings import Settings

RemainingMs = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Call:
    """One invocation: what limits it, and where what happens in it is noted.

    ``remaining_ms`` counts the client's patience too; ``function_ms`` does not, for an answer that comes in pieces.
    """

    record: Record
    remaining_ms: RemainingMs
    function_ms: RemainingMs
    streams: bool


class Chunks(Protocol):
    def __call__(self, events: Iterable[Event | None], head: Head, *, include_usage: bool) -> Iterator[bytes]: ...


@dataclass(frozen=True, slots=True)
class Form:
    """The shape of one endpoint's answers: the start of their ids, the whole object, the stream."""

    kind: str
    whole: Callable[[Iterable[Event], Head], Mapping[str, Any]]
    chunks: Chunks


_CHAT = Form("chatcmpl", completion, stream.sse)


class Answering:
    """Holds the engine for one answer at a time; a second caller waits for its turn."""

    def __init__(self, settings: Settings, loader: Loader) -> None:
        self._settings = settings
        self._loader = loader
        self._turn = threading.Lock()

    def chat(self, request: HttpRequest, call: Call) -> Reply:
        body = json_object(request.body)
        options = read_request(body)
        call.record.unknown_fields = unknown_fields(body)
        asked = options.for_engine(splice=self._settings.splice)
        call = _timed(call, options)
        engine = self._engine(options, call)
        return self._answer(engine, partial(engine.chat, asked), options, _CHAT, call)

    def complete(self, request: HttpRequest, call: Call) -> Reply:
        options = read_completion(json_object(request.body))
        asked = options.for_engine()
        call = _timed(call, options)
        engine = self._engine(options, call)
        echoed = options.echoed(engine.token_bytes)
        form = Form("cmpl", partial(text_completion, echoed=echoed), partial(text_sse, echoed=echoed))
        return self._answer(engine, partial(engine.complete, options.prompt, asked), options, form, call)

    def _engine(self, options: Options, call: Call) -> Engine:
        if call.remaining_ms() <= 0:
            raise OutOfTime("No time is left to answer in; the function's timeout is too short.")
        engine = self._loader.engine(call.remaining_ms())
        call.record.init_ms = self._loader.init_ms
        ServedModel(engine, self._settings.names).check(options.model)
        return engine

    def _answer(
        self,
        engine: Engine,
        begin: Callable[[RemainingMs], Iterator[Event]],
        options: Options,
        form: Form,
        call: Call,
    ) -> Reply:
        head = Head(ServedModel(engine, self._settings.names).name, engine.fingerprint, form.kind)
        chunks = partial(form.chunks, head=head, include_usage=options.include_usage)
        with ExitStack() as turn:
            if not self._turn.acquire(timeout=max(call.remaining_ms(), 0) / 1000):
                raise Busy("Another request is being answered; try again when it is done.")
            turn.callback(self._turn.release)
            events = _noted(begin(call.remaining_ms), call.record)
            turn.callback(events.close)
            if not options.stream:
                return json_reply(200, form.whole(events, head))
            if not call.streams:
                return Reply(200, dict(stream.HEADERS), b"".join(chunks(stream.merged(events))).decode())
            beating = stream.with_silences(events, stream.HEARTBEAT_S)
            turn.callback(beating.close)
            first = next(beating)  # a refusal comes instead of it, while the status is still open
            body = _ended_well(chunks(chain([first], beating)), call.record)
            return Reply(200, dict(stream.HEADERS), chunks=body, close=turn.pop_all().close)


def _timed(call: Call, options: Options) -> Call:
    """The call with the time an answer of this kind has: pieces keep a client waiting, one object does not."""
    return replace(call, remaining_ms=call.function_ms) if options.stream and call.streams else call


def _noted(events: Iterator[Event], record: Record) -> Generator[Event, None, None]:
    """The events, logged on their way past where there is something to log."""
    for event in _closing(events):
        if isinstance(event, Prefilled):
            record.prefilled(event)
        elif isinstance(event, Finished):
            record.finished(event)
        elif isinstance(event, Progress):
            log("progress", level=logging.DEBUG, done_tokens=event.done_tokens, total_tokens=event.total_tokens)
        yield event


def _closing(events: Iterator[Event]) -> Generator[Event, None, None]:
    with PanicsAsErrors():
        yield from events  # which closes them when this is closed


def _ended_well(chunks: Iterator[bytes], record: Record) -> Iterator[bytes]:
    """The chunks; after a failure an error event, because the status is out, and the failure again."""
    try:
        yield from chunks
    except Exception as failure:
        yield stream.sse_error(reported(failure, record))
        raise
