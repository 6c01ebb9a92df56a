"""The function: an event comes in, the engine answers, the answer leaves in the shape its sender reads."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from engine.stages import Stages
from handler import STARTED_S
from handler.answering import Answering, Call
from handler.auth import Keys
from handler.body import json_object
from handler.deadline import Context, deadline
from handler.errors import MethodNotAllowed, UnknownPath
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
from handler.inspection import prompt_of, tokens_of
from handler.loader import Engine, Loader
from handler.log import frames, log, set_up
from handler.model_store import local_model
from handler.models import ServedModel
from handler.page import page_reply
from handler.panic import PanicsAsErrors
from handler.record import Record, reported
from handler.settings import Settings, read_settings


class App:
    """Answers events: the routes and what every one of them has in common."""

    def __init__(self, settings: Settings, load: Callable[[], Engine]) -> None:
        self.loader = Loader(load)
        self._settings = settings
        self._answering = Answering(settings, self.loader)
        self.keys = Keys(settings)
        self._cold = True
        self._remaining_ms: Callable[[], float] = lambda: 0.0  # of the last invocation
        self._routes: dict[str, tuple[str, Callable[[HttpRequest, Call], Reply]]] = {
            "/chat/completions": ("POST", self._answering.chat),
            "/completions": ("POST", self._answering.complete),
            "/tokenize": ("POST", self._tokenize),
            "/apply-template": ("POST", self._apply_template),
            "/models": ("GET", self._models),
            "/health": ("GET", self._health),
            "/": ("GET", lambda _request, _call: page_reply()),
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

    def idle(self) -> None:
        """What the engine does between an answer and the next event, within the time the settings and Lambda give."""
        settings = self._settings
        within_ms = min(settings.snapshot_write_ms, self._remaining_ms() - settings.deadline_margin_ms)
        if within_ms <= 0 or self.loader.state != "ready":
            return
        try:
            self.loader.engine(0).idle(within_ms)
        except Exception as failure:  # noqa: BLE001  nobody waits for this, and it would end the environment
            log("idle_failed", level=logging.ERROR, error=type(failure).__name__, frames=frames(failure.__traceback__))

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
        self._remaining_ms = context.get_remaining_time_in_millis
        try:
            request = http_request(event) if is_http(event) else direct_request(event)
            record.retry_count = request.headers.get("x-stainless-retry-count")
            margin_ms = self._settings.deadline_margin_ms
            patience = request.headers.get("x-stainless-read-timeout")
            call = Call(record, deadline(context, margin_ms, patience), deadline(context, margin_ms, None), streams)
            with PanicsAsErrors():
                reply = self._route(request, call) if is_http(event) else self._answering.chat(request, call)
        except Exception as failure:  # noqa: BLE001  an exception that escapes costs the whole environment
            reply = error_reply(reported(failure, record))
        reply.headers["x-request-id"] = context.aws_request_id
        return reply

    def _route(self, request: HttpRequest, call: Call) -> Reply:
        path = request.path.rstrip("/").removeprefix("/v1") or "/health"
        if request.path == "/" and self._settings.page:
            path = "/"
        name = "/models" if path.startswith("/models/") else path
        if name not in self._routes:
            raise UnknownPath(
                f"Nothing is served at {request.path[:100]}; there are POST /v1/chat/completions, "
                "POST /v1/completions, POST /tokenize, POST /apply-template, GET /v1/models, GET /v1/models/{model} "
                "and GET /health."
            )
        method, answer = self._routes[name]
        if request.method == "OPTIONS":  # the function URL answers CORS preflights before they come here
            return Reply(204, {"allow": f"{method}, OPTIONS"})
        if name not in ("/health", "/"):
            self.keys.check(request.headers)
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

    def _tokenize(self, request: HttpRequest, call: Call) -> Reply:
        return json_reply(200, tokens_of(json_object(request.body), self.loader.engine(call.remaining_ms())))

    def _apply_template(self, request: HttpRequest, call: Call) -> Reply:
        return json_reply(200, prompt_of(json_object(request.body), self.loader.engine(call.remaining_ms())))


_app: App | None = None


def init() -> App:
    """Read the settings and begin loading: once per environment.  SettingsError if a setting is wrong."""
    global _app
    if _app is None:
        settings = read_settings(os.environ)
        set_up(settings.log)
        _app = App(settings, lambda: load_engine(settings))
        _app.loader.start()
        _app.keys.warm_up()
    return _app


def idle() -> None:
    init().idle()


def handler(event: Any, context: Context) -> Any:
    return init().handle(event, context)


def load_engine(settings: Settings) -> Engine:
    # These import the native extension: not before it is needed.
    from engine.engine import Engine as LoadedEngine
    from engine.snapshots import SnapshotPlaces

    stages = Stages(STARTED_S)
    stages.end("imports")
    path = local_model(settings.model, settings.model_sha256)
    stages.end("fetch")
    return LoadedEngine.load(
        path,
        context=settings.context,
        threads=settings.threads,
        isa=settings.isa,
        memory_bytes=None if settings.memory_mb is None else settings.memory_mb << 20,
        cache_bytes=None if settings.cache_mb is None else settings.cache_mb << 20,
        splice=settings.splice,
        places=SnapshotPlaces(
            baked=settings.snapshot_baked,
            directory=settings.snapshot_folder,
            max_bytes=settings.snapshot_max_mb << 20,
            s3=settings.snapshot_s3,
        ),
        note=_note,
        stages=stages,
    )


def _note(event: str, facts: Mapping[str, object]) -> None:
    """A line about a stored snapshot; a warning if something is the matter with it."""
    log(event, level=logging.WARNING if "reason" in facts else logging.INFO, **facts)
