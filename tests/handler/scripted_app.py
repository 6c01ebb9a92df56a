"""The function with a scripted engine, run by the real runtime: `python -m tests.handler.scripted_app`.

What the engine does is chosen by the last user message.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from engine.errors import ContextFull, NumericFault
from engine.events import Event, Progress, Text
from engine.request import ChatRequest
from handler.app import App
from handler.deadline import Context
from handler.log import set_up
from handler.runtime import serve
from handler.settings import read_settings
from tests.handler.scripted import ScriptedEngine, Step, finished, panic, prefilled, said


def _pause() -> None:
    time.sleep(0.15)


SCRIPTS: dict[str, list[Step]] = {
    "slow": [Progress(10, 46), prefilled(), Text("Hel"), _pause, Text("lo"), _pause, Text("!"), finished(3)],
    "break": [prefilled(), Text("Hel"), NumericFault("the logits are not numbers"), finished()],
    "bug": [prefilled(), Text("Hel"), KeyError("a secret"), finished()],
    "early bug": [KeyError("a secret")],
    "panic": [prefilled(), Text("Hel"), panic, finished()],
    "too long": [ContextFull(5000, 4096)],
    "endless": [
        prefilled(),
        *(step for _ in range(2000) for step in (Text("word "), lambda: time.sleep(0.01))),
    ],
    "huge": [prefilled(), Text("x" * 7_000_000), finished()],
}


class ChosenEngine(ScriptedEngine):
    """Says what it is told to; "how many" answers with the number of answers that have ended.

    After "busy afterwards" it takes half a second before the next event.
    """

    def idle(self, within_ms: float) -> None:
        if self.requests[-1].messages[-1]["content"] == "busy afterwards":
            time.sleep(0.5)

    def chat(self, request: ChatRequest, remaining_ms: Callable[[], float]) -> Iterator[Event]:
        text = str(request.messages[-1]["content"])
        script = said(str(self.ended)) if text == "how many" else SCRIPTS.get(text, said("Hello", " wörld"))
        self._scripts = [script]
        return super().chat(request, remaining_ms)


_lock = threading.Lock()
_app: App | None = None


def init() -> App:
    global _app
    with _lock:
        if _app is None:
            settings = read_settings(os.environ)
            set_up(settings.log)
            _app = App(settings, ChosenEngine)
        return _app


def handler(event: Any, context: Context) -> Any:
    return init().handle(event, context)


def idle() -> None:
    init().idle()


if __name__ == "__main__":
    from tests.handler import scripted_app  # the module that the runtime finds the handler in

    serve(scripted_app.init, "tests.handler.scripted_app.handler", scripted_app.idle)
