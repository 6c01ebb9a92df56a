"""A library that panics: one answer fails, the process and the next request do not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.events import Text
from handler.panic import LibraryPanic, PanicsAsErrors
from tests.emulator import Lambda
from tests.handler.scripted import (
    KEY,
    LambdaContext,
    ScriptedEngine,
    Step,
    app_loading,
    app_with,
    chat,
    finished,
    panic,
    post,
    prefilled,
    said,
    sse_chunks,
    url_event,
)

ROOT = Path(__file__).parents[2]
FAILED = (500, "internal_error", "The server failed to answer this request.")
SCRIPTS: dict[str, list[Step]] = {
    "before the first event": [panic],
    "in mid-answer": [prefilled(), Text("Hel"), panic, finished()],
}


class Panicking(ScriptedEngine):
    """Panics outside of its answers too."""

    def tokenize(self, text: str, *, specials: bool = True) -> list[int]:
        if text == "panic":
            panic()
        return super().tokenize(text, specials=specials)


def error_of(answer: tuple[int, Any]) -> tuple[int, str, str]:
    return answer[0], answer[1]["error"]["code"], answer[1]["error"]["message"]


def test_a_panic_is_none_of_the_exceptions_that_are_caught_otherwise() -> None:
    with pytest.raises(BaseException, match="slice index") as caught:
        panic()
    assert not isinstance(caught.value, Exception)
    assert caught.type.__name__ == "PanicException"


def test_only_a_panic_becomes_another_exception() -> None:
    with pytest.raises(LibraryPanic) as caught, PanicsAsErrors():
        panic()
    assert "slice" not in str(caught.value) and caught.value.__suppress_context__
    for other in (KeyError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()):
        with pytest.raises(type(other)) as same, PanicsAsErrors():
            raise other
        assert same.value is other


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
@pytest.mark.parametrize("streams", [False, True])
def test_a_panic_in_an_answer_is_one_error_and_the_next_request_works(
    records: Callable[[str], list[dict[str, Any]]], script: list[Step], streams: bool
) -> None:
    app = app_with(ScriptedEngine(script, said("fine")))
    assert error_of(post(app, chat("a secret", stream=streams))) == FAILED
    assert post(app, chat())[0] == 200
    (line,) = records("failed")
    assert (line["status"], line["error"]) == (500, "LibraryPanic")
    assert line["frames"][-1].endswith(" panic")
    assert "secret" not in json.dumps(line) and "slice" not in json.dumps(line)


def test_a_panic_in_mid_stream_is_one_error_event_and_the_end() -> None:
    app = app_with(ScriptedEngine(SCRIPTS["in mid-answer"], said("fine")), QWARM_INVOKE_MODE="RESPONSE_STREAM")
    reply = app.handle(url_event(chat(stream=True)), LambdaContext())
    received: list[bytes] = []
    with pytest.raises(LibraryPanic):
        received.extend(reply.pieces())
    reply.close()
    assert sse_chunks(b"".join(received).decode())[-1]["error"]["code"] == "internal_error"
    assert app.handle(url_event(chat()), LambdaContext()).status == 200


def test_a_panic_in_another_endpoint_or_while_loading_is_an_error_too() -> None:
    app = app_with(Panicking())
    assert error_of(post(app, {"content": "panic"}, path="/tokenize")) == FAILED
    assert post(app, {"content": "fine"}, path="/tokenize")[0] == 200

    def load() -> ScriptedEngine:
        if not tries:
            tries.append(1)
            panic()
        return ScriptedEngine()

    tries: list[int] = []
    app = app_loading(load)
    assert error_of(post(app, chat())) == FAILED
    assert post(app, chat())[0] == 200


@pytest.fixture(scope="module")
def function() -> Iterator[Lambda]:
    environ = {"QWARM_API_KEY": KEY, "QWARM_INVOKE_MODE": "RESPONSE_STREAM"}
    with Lambda([sys.executable, "-m", "tests.handler.scripted_app"], ROOT, environ) as running:
        yield running


@pytest.mark.parametrize("streams", [False, True])
def test_a_panic_does_not_end_the_process(function: Lambda, streams: bool) -> None:
    process = function.process.pid
    for text in ("panic", "hello") * 3:
        body = function.invoke(url_event(chat(text, stream=streams))).body().decode()
        assert ("internal_error" in body) == (text == "panic")
        assert ("wörld" in body) == (text == "hello")
    assert function.process.poll() is None and function.process.pid == process
