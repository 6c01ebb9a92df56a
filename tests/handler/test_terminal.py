"""What a person reads while the local server runs."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from engine.errors import ContextFull
from engine.events import Progress, Text
from handler.terminal import TerminalLog
from tests.handler.scripted import ScriptedEngine, Step, app_with, chat, finished, post, prefilled


@pytest.fixture
def terminal() -> Iterator[io.StringIO]:
    """The screen, as the qwarm logger writes it."""
    logger, screen = logging.getLogger("qwarm"), io.StringIO()
    before, level = logger.handlers[:], logger.level
    logger.handlers[:] = [TerminalLog(screen, logging.INFO)]
    logger.setLevel(logging.DEBUG)
    yield screen
    logger.handlers[:] = before
    logger.setLevel(level)


def seen(screen: io.StringIO) -> list[str]:
    """The lines that remain on the screen."""
    return [line.rpartition("\r")[2].rstrip() for line in screen.getvalue().split("\n")[:-1]]


def ask(*scripts: list[Step]) -> None:
    app = app_with(ScriptedEngine(*scripts), QWARM_METRICS="off")
    for _ in scripts:
        post(app, chat())


def test_a_request_is_one_line(terminal: io.StringIO) -> None:
    ask([prefilled(1046, 1000), Text("x"), finished(2)])
    assert seen(terminal)[0].startswith(
        "base PER_TOKEN 1,000 reused + 46 computed, 20 ms, 2,300 tok/s | 2 tokens, 10 ms"
    )
    assert len(seen(terminal)) == 1


def test_progress_is_shown_and_written_over(terminal: io.StringIO) -> None:
    ask([Progress(512, 2048), prefilled(), finished(1)])
    assert "\rreading     512 of 2,048 tokens" in terminal.getvalue()
    assert not seen(terminal)[0].startswith("reading")


def test_what_follows_an_answer_that_was_not_finished_begins_a_line(terminal: io.StringIO) -> None:
    ask([prefilled(), KeyError("x")], [ContextFull(5000, 4096)])
    prefill, failed, refused = seen(terminal)
    assert prefill.endswith("tok/s")
    assert failed.startswith("failed      status=500")
    assert refused.startswith("refused     status=400 code=context_length_exceeded")
