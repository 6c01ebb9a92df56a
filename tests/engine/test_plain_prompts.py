"""Prompts without a template, unfinished answers, and prefills refused for want of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.errors import ContextFull, InvalidPrompt, OutOfTime
from engine.events import Event, Finished, Prefilled, Reasoning, Text, TokenLogprob
from engine.prefill_speed import PrefillSpeed
from engine.request import ChatRequest, Sampling
from make_synth import SHAPES, write_model

GREEDY = ChatRequest(messages=(), sampling=Sampling(temperature=0), max_tokens=8)
CHAT = ({"role": "user", "content": "Name a river."},)


def forever() -> float:
    return 1e9


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path, replace(SHAPES["tinyg"], n_vocab=8192), "q4_k_m", seed=5)
    return path


@pytest.fixture(scope="module")
def engine(path: Path) -> Engine:
    return Engine.load(str(path), context=1024, threads=2, memory_bytes=4 << 30)


def text_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def prefilled(events: Sequence[Event]) -> Prefilled:
    return next(event for event in events if isinstance(event, Prefilled))


def test_a_rendered_prompt_goes_on_as_the_conversation_does(engine: Engine) -> None:
    request = replace(GREEDY, messages=CHAT, thinking=False)
    conversation = list(engine.chat(request, forever))
    rendered = engine.render(request)
    for prompt in (rendered.text, rendered.ids):
        events = list(engine.complete(prompt, GREEDY, forever))
        assert prefilled(events).prompt_tokens == prefilled(conversation).prompt_tokens == len(rendered.ids)
        assert text_of(events).strip() == text_of(conversation).strip()
    assert engine.tokenize(rendered.text) == rendered.ids
    assert engine.tokenize(rendered.text, specials=False) != rendered.ids


def test_the_same_plain_prompt_again_evaluates_one_token(engine: Engine) -> None:
    first = list(engine.complete("The longest river of Norway", GREEDY, forever))
    second = list(engine.complete("The longest river of Norway", GREEDY, forever))
    assert prefilled(first).prefilled == prefilled(first).prompt_tokens
    assert prefilled(second).prefilled <= 1
    assert text_of(first) == text_of(second)


def test_whatever_a_plain_answer_looks_like_is_text(engine: Engine) -> None:
    think = engine.tokenize("<think>")[0]
    events = list(engine.complete("a", replace(GREEDY, sampling=Sampling(logit_bias={think: 100})), forever))
    assert text_of(events) == "<think>" * 8
    assert not any(isinstance(event, Reasoning) for event in events)


def test_every_token_of_a_plain_answer_is_scored(engine: Engine) -> None:
    events = list(engine.complete("a b c", replace(GREEDY, top_logprobs=2), forever))
    scored = [event for event in events if isinstance(event, TokenLogprob)]
    finished = events[-1]
    assert isinstance(finished, Finished) and len(scored) == finished.completion_tokens
    assert b"".join(token.token_bytes for token in scored).decode(errors="replace") == text_of(events)
    assert all(len(token.top) == 2 and token.top[0][2] == token.logprob for token in scored)


@pytest.mark.parametrize("prompt", ["", [], [-1], [10**9]])
def test_a_plain_prompt_without_real_tokens_is_refused(engine: Engine, prompt: str | list[int]) -> None:
    with pytest.raises(InvalidPrompt, match="the prompt has"):
        list(engine.complete(prompt, GREEDY, forever))


def test_a_plain_prompt_as_long_as_the_context_is_refused(engine: Engine) -> None:
    with pytest.raises(ContextFull, match="1024 tokens needed, the context holds 1024"):
        list(engine.complete([5] * 1024, GREEDY, forever))


def test_an_unfinished_answer_ends_the_prompt_where_it_ends(engine: Engine) -> None:
    begun = (*CHAT, {"role": "assistant", "content": "The <tool_call> Glomma, "})
    rendered = engine.render(replace(GREEDY, messages=begun, continue_final=True))
    assert rendered.text.endswith("The <tool_call> Glomma, ")
    whole = engine.render(replace(GREEDY, messages=begun)).text
    assert whole.startswith(rendered.text.rstrip())
    events = list(engine.chat(replace(GREEDY, messages=begun, continue_final=True), forever))
    assert prefilled(events).prompt_tokens == len(rendered.ids)


def test_only_an_answer_can_be_unfinished(engine: Engine) -> None:
    with pytest.raises(InvalidPrompt, match="nothing to continue"):
        engine.render(replace(GREEDY, messages=CHAT, continue_final=True))


def test_a_prefill_that_cannot_fit_is_refused_before_any_work_with_the_numbers(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.evaluation.prefill_speed, "tokens_per_s", 100.0)
    before = engine.evaluation.session.counters
    with pytest.raises(OutOfTime, match=r"^500 tokens .* need 5\.0 s at the 100 tokens/s .*; 4\.0 s are left$"):
        list(engine.complete([5] * 500, GREEDY, lambda: 4000.0))
    assert engine.evaluation.session.counters == before
    assert isinstance(list(engine.complete([5] * 500, GREEDY, lambda: 6000.0))[-1], Finished)


def test_cached_tokens_need_no_time(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    list(engine.complete([5] * 500, GREEDY, forever))
    monkeypatch.setattr(engine.evaluation.prefill_speed, "tokens_per_s", 1.0)
    assert isinstance(list(engine.complete([5] * 500, GREEDY, lambda: 4000.0))[-1], Finished)


def test_the_speed_is_unknown_until_the_second_long_piece() -> None:
    speed = PrefillSpeed()
    speed.measured(1000, 10_000)
    speed.measured(4, 1)
    assert (speed.tokens_per_s, speed.needed_ms(10**6)) == (None, 0)
    speed.measured(1000, 1000)
    assert speed.needed_ms(500) == 500
    speed.measured(1000, 2000)
    assert speed.tokens_per_s == 750
