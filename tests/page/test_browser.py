"""The page in headless Chromium, before the local server with a scripted engine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from tests.handler.scripted import KEY
from tests.page.browser import ENTER, ESCAPE, SHIFT, Browser, chromium
from tests.page.scripted_page import DOGS, PageEngine, serving

pytestmark = pytest.mark.skipif(chromium() is None, reason="needs chromium and chromedriver")
thorough = pytest.mark.skipif("QWARM_TEST_PAGE" not in os.environ, reason="`make test-page` runs it")


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture
def engine() -> PageEngine:
    return PageEngine()


@pytest.fixture
def page(window: Browser, engine: PageEngine) -> Iterator[Browser]:
    """The page with its key in place, at a server of its own; in the end, without a complaint in the console."""
    with serving(engine) as server:
        window.size(1100, 760)
        window.open(f"http://127.0.0.1:{server.server_port}/")
        window.type("#key", KEY + ENTER)
        window.run("document.querySelector('#key').dispatchEvent(new Event('change'))")
        window.wait(lambda: "qwen3.5-scripted" in window.text("#model"), "the model's name")
        window.click("#text")
        yield window
        assert window.complaints() == []
        window.run("sessionStorage.clear()")
        window.open("about:blank")


def ask(page: Browser, text: str) -> None:
    page.type("#text", text + ENTER)


def done(page: Browser) -> None:
    page.wait(lambda: page.text("#send") == "Send" and not page.run("return coming !== null"), "the end of the answer")


def focus(page: Browser) -> str:
    found: str = page.run("return document.activeElement.id")
    return found


def test_an_answer_streams_in_and_stands_beside_its_figures(page: Browser) -> None:
    ask(page, "Can I bring my dog?")
    page.wait(lambda: page.text(".assistant .text").startswith("Yes"), "the first words")
    assert page.text(".assistant .text") != DOGS
    assert page.text("#send") == "Stop"
    done(page)
    assert page.text(".assistant .text") == DOGS
    stats = page.text(".assistant .stats")
    for part in ("full", "291 ms", "0 reused", "302 computed", "prefill 1,038, answer 47.5 tok/s"):
        assert part in stats
    assert page.run("return document.querySelector('.bar').getAttribute('aria-label')") == (
        "0 prompt tokens reused, 302 computed"
    )
    assert focus(page) == "text"


def test_escape_stops_the_answer_and_the_conversation_goes_on(page: Browser, engine: PageEngine) -> None:
    ask(page, "endless")
    page.wait(lambda: "word word" in page.text(".assistant .text"), "words")
    page.click("#log")
    page.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}))")
    done(page)
    assert page.text(".assistant .note") == "stopped"
    assert focus(page) == "text"
    page.wait(lambda: engine.ended == 1, "the engine to be let go")
    ask(page, "still there?")
    done(page)
    assert [message["role"] for message in engine.requests[-1].messages] == ["user", "assistant", "user"]


@thorough
def test_the_stop_button_stops(page: Browser) -> None:
    ask(page, "endless")
    page.wait(lambda: "word word" in page.text(".assistant .text"), "words")
    page.click("#send")
    done(page)
    assert page.text(".assistant .note") == "stopped"


def test_a_refusal_is_shown_in_the_servers_words_and_gives_the_question_back(page: Browser) -> None:
    ask(page, "too long")
    page.wait(lambda: page.text("#alert"), "the refusal")
    assert page.text("#alert").startswith("This model's maximum context length is 4096 tokens.")
    done(page)
    assert page.run("return document.querySelector('#text').value") == "too long"
    assert page.run("return messages.length") == 0
    page.run("document.querySelector('#text').value = ''")
    ask(page, "better")
    done(page)
    assert page.text("#alert") == ""


@thorough
def test_a_failure_on_the_way_keeps_what_came_and_says_what_happened(page: Browser) -> None:
    ask(page, "break")
    page.wait(lambda: page.text("#alert"), "the failure")
    done(page)
    assert page.text(".assistant .text") == "Hel"


@thorough
def test_a_wrong_key_is_told_and_leads_to_the_key(page: Browser) -> None:
    page.run("document.querySelector('#key').value = 'wrong'")
    ask(page, "Hello")
    page.wait(lambda: "API key is not valid" in page.text("#alert"), "the refusal")
    done(page)
    page.run("document.querySelector('#key').value = arguments[0]", KEY)


def test_a_reload_keeps_the_conversation_and_the_key(page: Browser, engine: PageEngine) -> None:
    ask(page, "Can I bring my dog?")
    done(page)
    page.reload()
    page.wait(lambda: "qwen3.5-scripted" in page.text("#model"), "the model's name")
    assert page.text(".user .text") == "Can I bring my dog?"
    assert page.text(".assistant .text") == DOGS
    assert "302 computed" in page.text(".assistant .stats")
    ask(page, "next")
    done(page)
    assert [message["role"] for message in engine.requests[-1].messages] == ["user", "assistant", "user"]


@thorough
def test_a_reload_in_the_middle_keeps_what_had_come(page: Browser) -> None:
    ask(page, "endless")
    page.wait(lambda: "word word" in page.text(".assistant .text"), "words")
    page.reload()
    assert page.text(".assistant .text").startswith("word word")
    assert page.text(".assistant .note") == "stopped"


@thorough
def test_reasoning_is_folded_and_markup_is_text(page: Browser) -> None:
    ask(page, "think")
    done(page)
    assert page.run("return document.querySelector('.assistant .reasoning').open") is False
    assert page.text(".assistant .reasoning summary") == "Reasoning 2 words"
    page.click(".assistant .reasoning summary")
    assert "Hmm <b>so</b>" in page.text(".assistant .reasoning")
    assert page.text(".assistant .text") == "A <i>tag</i>"


@thorough
def test_a_tool_call_is_shown_and_its_result_is_asked_for(page: Browser, engine: PageEngine) -> None:
    page.run("document.querySelector('#options').open = true")
    page.click("#example")
    ask(page, "What is the weather like?")
    done(page)
    assert page.text(".call") == 'get_weather\n{ "city": "Oslo", "unit": "celsius" }'
    assert "get_weather" in page.text("#hint")
    ask(page, '{"sky": "clear", "celsius": -3}')
    done(page)
    request = engine.requests[-1]
    assert [tool["function"]["name"] for tool in request.tools] == ["get_weather"]
    assert [message["role"] for message in request.messages] == ["user", "assistant", "tool"]
    assert request.messages[1]["reasoning_content"].startswith("The guest asks")
    assert request.messages[1]["tool_calls"][0]["function"]["arguments"] == {"city": "Oslo", "unit": "celsius"}


@thorough
def test_options_reach_the_engine_and_bad_tools_are_told(page: Browser, engine: PageEngine) -> None:
    page.run("document.querySelector('#options').open = true")
    page.type("#system", "Be brief.")
    page.type("#temperature", "0")
    page.type("#max_tokens", "7")
    page.run("document.querySelector('#thinking').value = 'off'")
    ask(page, "Hello")
    done(page)
    request = engine.requests[-1]
    assert request.messages[0] == {"role": "system", "content": "Be brief."}
    assert (request.sampling.temperature, request.max_tokens, request.thinking) == (0, 7, False)
    page.type("#tools", "no list")
    ask(page, "Again")
    done(page)
    assert page.text("#alert") == "The tools are not a JSON list."


@thorough
def test_shift_enter_begins_a_line_and_an_empty_message_is_not_sent(page: Browser, engine: PageEngine) -> None:
    page.type("#text", ENTER)
    page.type("#text", "one" + SHIFT + ENTER + SHIFT + "two")
    assert page.run("return document.querySelector('#text').value") == "one\ntwo"
    assert engine.requests == []
    page.type("#text", ENTER)
    done(page)
    assert engine.requests[0].messages[0]["content"] == "one\ntwo"


@thorough
def test_a_new_chat_forgets_also_an_answer_on_its_way(page: Browser) -> None:
    ask(page, "endless")
    page.wait(lambda: "word word" in page.text(".assistant .text"), "words")
    page.click("#new")
    time.sleep(0.3)
    assert page.run("return [messages.length, document.querySelectorAll('article').length]") == [0, 0]
    assert page.text("#send") == "Send"


@thorough
def test_an_answer_that_was_cut_off_says_so(page: Browser) -> None:
    ask(page, "cut off")
    done(page)
    assert page.text(".assistant .note") == "cut off: no tokens or no time left"


@thorough
@pytest.mark.parametrize(("width", "height"), [(360, 640), (1100, 760)])
def test_nothing_is_wider_than_the_window(page: Browser, width: int, height: int) -> None:
    page.size(width, height)
    ask(page, "x" * 400)
    done(page)
    page.run("document.querySelector('#options').open = true")
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    assert page.run("return document.querySelector('#log').scrollWidth <= document.querySelector('#log').clientWidth")
    assert page.run("return document.querySelector('#send').getBoundingClientRect().bottom <= innerHeight")


@thorough
def test_escape_without_an_answer_changes_nothing(page: Browser) -> None:
    page.type("#text", "draft" + ESCAPE)
    assert page.run("return document.querySelector('#text').value") == "draft"


@thorough
def test_a_server_that_wants_a_key_is_understood_before_one_is_given(window: Browser) -> None:
    with serving(PageEngine()) as server:
        window.open(f"http://127.0.0.1:{server.server_port}/")
        window.wait(lambda: window.text("#alert"), "the refusal")
        assert window.text("#alert") == "This server asks for a key: type it above."
        assert focus(window) == "key"
        window.open("about:blank")
