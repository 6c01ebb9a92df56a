"""Loads the model in the background: a slow load neither outlasts the init phase nor is begun twice."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Literal, Protocol

from engine.errors import EngineError
from engine.events import Event
from engine.request import ChatRequest
from engine.stages import Stages
from handler.errors import ModelLoading
from handler.log import frames, log

if TYPE_CHECKING:
    from engine.chat_template import Rendered
    from engine.page_in import PageIn


class Engine(Protocol):
    """What the handler needs of the engine."""

    @property
    def model_name(self) -> str: ...

    @property
    def context(self) -> int: ...

    @property
    def isa(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def load_ms(self) -> float: ...

    @property
    def stages(self) -> Stages: ...

    @property
    def page_in(self) -> PageIn | None: ...

    def chat(self, request: ChatRequest, remaining_ms: Callable[[], float]) -> Iterator[Event]: ...

    def complete(
        self, prompt: str | Sequence[int], request: ChatRequest, remaining_ms: Callable[[], float]
    ) -> Iterator[Event]: ...

    def idle(self, within_ms: float) -> None: ...

    def tokenize(self, text: str, *, specials: bool = True) -> list[int]: ...

    def token_bytes(self, token: int) -> bytes: ...

    def render(self, request: ChatRequest) -> Rendered: ...


class Loader:
    """Holds the engine, or the attempt to get one.  A failed attempt is repeated by the next caller."""

    def __init__(self, load: Callable[[], Engine]) -> None:
        self._load = load
        self._guard = threading.Lock()
        self._attempt: Future[Engine] | None = None
        self.init_ms = 0.0  # from the start of the process to a loaded model

    @property
    def state(self) -> Literal["ready", "loading", "failed"]:
        attempt = self._attempt
        if attempt is None or not attempt.done():
            return "loading"
        return "failed" if attempt.exception() else "ready"

    def start(self) -> Future[Engine]:
        """Begin loading unless that was done."""
        with self._guard:
            if self._attempt is None or self.state == "failed":
                self._attempt = ThreadPoolExecutor(1, thread_name_prefix="load").submit(self._timed_load)
                self._attempt.add_done_callback(_report)
            return self._attempt

    def engine(self, timeout_ms: float) -> Engine:
        """The engine; ModelLoading if it takes longer than this, or what went wrong."""
        attempt = self.start()
        if not wait((attempt,), max(timeout_ms, 0) / 1000).done:
            raise ModelLoading("The model is still being loaded; try again in a few seconds.")
        return attempt.result()

    def _timed_load(self) -> Engine:
        engine = self._load()
        self.init_ms = round(engine.stages.total_ms, 1)
        log(
            "ready",
            model=engine.model_name,
            context=engine.context,
            isa=engine.isa,
            fingerprint=engine.fingerprint,
            load_ms=round(engine.load_ms, 1),
            init_ms=self.init_ms,
        )
        return engine


def _report(attempt: Future[Engine]) -> None:
    """What there is to say about an attempt once those who waited for it go on."""
    failure = attempt.exception()
    if failure is None:
        _report_stages(attempt.result())
        return
    where = None if isinstance(failure, EngineError) else frames(failure.__traceback__)
    log(
        "load_failed",
        level=logging.ERROR,
        error=type(failure).__name__,
        reason=str(failure),
        frames=where,
    )


def _report_stages(engine: Engine) -> None:
    """The stages add up to init_ms; the weights come into memory beside them, and perhaps later."""
    stages: dict[str, Any] = {f"{name}_ms": round(ms, 1) for name, ms in engine.stages.ms.items()}
    pages = engine.page_in
    if pages is not None:
        pages.wait()
        stages |= {"page_in_ms": round(pages.ms, 1), "page_in_mb": round(pages.n_bytes / 1e6, 1)}
    log("init", **stages, init_ms=round(engine.stages.total_ms, 1))
