"""Whole answers: what is reused, how they end, and that a warm engine says what a cold one does."""

from __future__ import annotations

import itertools
import json
import threading
from dataclasses import replace

import pytest

from engine.engine import Engine
from engine.errors import Busy, ContextFull, InvalidPrompt, OutOfMemory, OutOfTime
from engine.events import Finished, Prefilled, Progress, Reasoning, Text, ToolArguments, ToolCall
from engine.request import ChatRequest, Sampling, ToolChoice
from make_synth import SHAPES, write_model

TOOLS = (
    {
        "type": "function",
        "function": {"name": "level", "parameters": {"properties": {"river": {"type": "string"}}}},
    },
)
SYSTEM = {"role": "system", "content": "Answer in one short sentence."}


def forever():
    return 1e9


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path, replace(SHAPES["tinyg"], n_vocab=8192), "q4_k_m", seed=5)
    return str(path)


def load(path, **options):
    return Engine.load(path, **{"context": 1024, "threads": 2, "memory_bytes": 4 << 30, **options})


@pytest.fixture(scope="module")
def engine(path):
    return load(path)


def user(text):
    return {"role": "user", "content": text}


def ask(*messages, max_tokens=6, **options):
    return ChatRequest(
        messages=messages,
        sampling=Sampling(temperature=0),
        max_tokens=max_tokens,
        **{"tools": TOOLS, **options},
    )


def answer(engine, request, remaining_ms=forever):
    """The prefill event, everything said, and the end."""
    events = list(engine.chat(request, remaining_ms))
    prefilled = next(event for event in events if isinstance(event, Prefilled))
    said = "".join(event.text for event in events if isinstance(event, Text | Reasoning))
    assert isinstance(events[-1], Finished)
    return prefilled, said, events[-1]


def test_the_same_prompt_again_prefills_at_most_four_tokens_and_says_the_same(path):
    engine = load(path)
    request = ask(SYSTEM, user("How high is the Glomma?"))
    first, said, _ = answer(engine, request)
    second, again, _ = answer(engine, request)
    assert (first.path, first.restored_at, first.prefilled) == ("full", 0, first.prompt_tokens)
    assert second.path == "anchor"
    assert second.prefilled == second.prompt_tokens - second.restored_at <= 4
    assert again == said


def test_the_same_prompt_again_evaluates_nothing_even_when_another_answer_was_given_in_between(path):
    engine = load(path)
    request = ask(SYSTEM, user("How high is the Glomma?"))
    _, said, _ = answer(engine, replace(request, sampling=Sampling(temperature=1.5, seed=3)))
    before = engine.evaluation.session.counters
    again, cold, _ = answer(engine, request)
    assert (again.path, again.prefilled, again.batch_rows) == ("anchor", 0, 0)
    assert again.kernel.endswith("/none")
    assert engine.evaluation.session.counters.prefill_tokens == before.prefill_tokens
    assert cold == answer(load(path), request)[1] != said


@pytest.mark.parametrize("thinking", [True, False])
def test_a_conversation_goes_on_from_its_anchor(path, thinking):
    engine = load(path)
    first, said, _ = answer(engine, ask(SYSTEM, user("One?"), thinking=thinking))
    turn = ask(SYSTEM, user("One?"), {"role": "assistant", "content": said}, user("Two?"), thinking=thinking)
    second, warm, _ = answer(engine, turn)
    assert second.path == "anchor"
    assert second.restored_at == first.prompt_tokens - (2 if thinking else 4)
    assert warm == answer(load(path), turn)[1]


def test_another_conversation_starts_after_the_shared_system_block_and_the_first_is_still_there(path):
    engine = load(path)
    request = ask(SYSTEM, user("One?"))
    first, said, _ = answer(engine, request)
    other, _, _ = answer(engine, ask(SYSTEM, user("Something else entirely?")))
    back, again, _ = answer(engine, request)
    assert other.path == "base"
    assert 0 < other.restored_at < first.prompt_tokens
    assert (back.path, back.prefilled, again) == ("anchor", 0, said)


def test_another_system_text_still_shares_the_tools(path):
    engine = load(path)
    answer(engine, ask(SYSTEM, user("One?")))
    other, _, _ = answer(engine, ask({"role": "system", "content": "Be verbose."}, user("One?")))
    assert other.path == "base"
    assert other.diverge_at is not None
    assert other.restored_at <= other.diverge_at == other.lcp


def test_every_answer_of_a_mixed_sequence_equals_a_cold_engines(path):
    engine = load(path)
    requests = [
        ask(SYSTEM, user("One?")),
        ask(SYSTEM, user("Two?")),
        ask(user("No system text."), tools=()),
        ask(SYSTEM, user("One?"), {"role": "assistant", "content": "Yes."}, user("Sure?")),
        ask(SYSTEM, user("One!")),
        ask(SYSTEM, user("One?"), thinking=False),
        ask(SYSTEM, user("One?")),
    ]
    for request in requests:
        assert answer(engine, request)[1] == answer(load(path), request)[1]


def test_an_abandoned_answer_leaves_the_engine_ready(path):
    engine = load(path)
    request = ask(SYSTEM, user("One?"), max_tokens=50)
    stream = engine.chat(request, forever)
    for _ in range(4):
        next(stream)
    stream.close()
    prefilled, said, _ = answer(engine, request)
    assert prefilled.path == "anchor"
    assert said == answer(load(path), request)[1]


def test_what_is_logged_as_prefilled_is_what_the_c_engine_evaluated(engine):
    before = engine.evaluation.session.counters
    prefilled, _, finished = answer(engine, ask(SYSTEM, user("Count me.")))
    after = engine.evaluation.session.counters
    assert after.prefill_tokens - before.prefill_tokens == prefilled.prefilled
    assert after.decode_tokens - before.decode_tokens == finished.completion_tokens - 1
    assert prefilled.kernel.endswith("/gemm_i8")


def test_a_long_prompt_reports_progress_and_stops_when_time_runs_out(path):
    engine = load(path, context=8192)
    request = ask(user("word " * 3000), tools=())
    events = list(engine.chat(request, forever))
    progress = [event for event in events if isinstance(event, Progress)]
    assert len(progress) >= 2
    assert all(event.done_tokens % 16 == 0 for event in progress)

    cold = load(path, context=8192)
    looks = iter([1e9, 1e9, -1.0])
    with pytest.raises(OutOfTime, match="time ran out after"):
        list(cold.chat(request, lambda: next(looks)))
    said = "".join(event.text for event in events if isinstance(event, Text | Reasoning))
    assert answer(cold, request)[1] == said


def test_no_time_at_all_is_refused_before_any_work(engine):
    before = engine.evaluation.session.counters
    with pytest.raises((OutOfTime, Busy)):
        list(engine.chat(ask(user("Hi")), lambda: 0.0))
    assert engine.evaluation.session.counters == before


def test_an_answer_ends_at_the_deadline_with_what_it_has(engine):
    looks = itertools.count()
    _, said, finished = answer(engine, ask(user("Talk."), max_tokens=900), lambda: 1e6 if next(looks) < 20 else 0.0)
    assert (finished.reason, finished.cause) in {("length", "deadline"), ("stop", "eos")}
    assert said
    assert finished.completion_tokens <= 20


def test_a_prompt_as_long_as_the_context_is_refused_with_both_numbers(path):
    n_prompt = answer(load(path), ask(user("Hello")))[0].prompt_tokens
    for context in (n_prompt - 1, n_prompt):
        with pytest.raises(ContextFull, match=f"{n_prompt} tokens needed, the context holds {context}"):
            list(load(path, context=context).chat(ask(user("Hello")), forever))
    _, _, finished = answer(load(path, context=n_prompt + 1), ask(user("Hello"), max_tokens=None))
    assert (finished.completion_tokens, finished.reason) in {(1, "length"), (0, "stop")}


def test_max_tokens_ends_an_answer_as_length(engine):
    _, _, finished = answer(engine, ask(user("Hello"), max_tokens=3))
    assert (finished.completion_tokens, finished.reason, finished.cause) == (3, "length", "max_tokens")


def test_the_same_seed_makes_the_same_choices(engine):
    request = replace(ask(user("Surprise me"), max_tokens=12), sampling=Sampling(temperature=1.0, seed=7))
    assert answer(engine, request)[1] == answer(engine, request)[1]


def test_logits_of_padding_are_never_chosen(engine):
    biased = Sampling(temperature=0, logit_bias={engine.tokenizer.n_real: 100.0})
    with pytest.raises(InvalidPrompt, match="logit_bias names token"):
        list(engine.chat(replace(ask(user("Hello")), sampling=biased), forever))


def test_a72_a_second_caller_waits_for_its_turn(path):
    engine = load(path)
    first = engine.chat(ask(user("One?"), max_tokens=30), forever)
    next(first)
    with pytest.raises(Busy):
        next(engine.chat(ask(user("Two?")), lambda: 50.0))
    said: list[str] = []
    second = threading.Thread(target=lambda: said.append(answer(engine, ask(user("Two?")))[1]))
    second.start()
    list(first)
    second.join(30)
    assert said == [answer(load(path), ask(user("Two?")))[1]]


def test_a74_a_model_that_does_not_fit_is_refused_with_both_sizes(path):
    with pytest.raises(OutOfMemory, match=r"needs \d+ MiB, \d+ MiB of 128 MiB are usable"):
        load(path, memory_bytes=128 << 20)


def test_a73_the_default_context_is_what_memory_allows(path):
    engine = load(path, context=None, memory_bytes=1 << 30)
    assert 512 <= engine.context <= 32768
    assert engine.cache_bytes < 1 << 30


def test_the_cache_stays_within_its_budget(path):
    engine = load(path, cache_bytes=3 << 20)
    for n in range(8):
        prefilled, _, _ = answer(engine, ask(SYSTEM, user(f"Number {n}?")))
        assert prefilled.snapshot_bytes <= 3 << 20
    assert engine.evaluation.cache.evictions > 0


def call_of(events):
    """The first tool call of an answer, as a client returns it: without the reasoning."""
    call = next(event for event in events if isinstance(event, ToolCall))
    arguments = "".join(e.json for e in events if isinstance(e, ToolArguments) and e.index == call.index)
    function = {"name": call.name, "arguments": json.loads(arguments)}
    return {"id": call.id, "type": "function", "function": function}


@pytest.mark.parametrize("splice", [True, False])
def test_a_tool_step_of_a_client_that_drops_reasoning_is_a_pure_extension(path, splice):
    engine = load(path, splice=splice)
    options = {"thinking": True, "thinking_budget": 5, "max_tokens": 200, "parallel_tool_calls": False}
    request = ask(SYSTEM, user("One?"), tool_choice=ToolChoice("required"), **options)
    events = list(engine.chat(request, forever))
    assert any(isinstance(event, Reasoning) for event in events)
    call = call_of(events)
    assistant = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "3.2 m"}
    step, _, _ = answer(engine, ask(SYSTEM, user("One?"), assistant, result, **options))
    if splice:
        assert (step.path, step.spliced > 0) == ("extend", True)
        assert step.restored_at == step.prompt_tokens - step.prefilled
    else:
        assert (step.path, step.spliced) == ("anchor", 0)
