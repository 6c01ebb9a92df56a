"""Text completions: the prompt as it is, and answers in the shape of OpenAI's older endpoint."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types import Completion

from engine.events import Progress, Text, TokenLogprob
from tests.handler.scripted import (
    LambdaContext,
    ScriptedEngine,
    app_with,
    finished,
    post,
    prefilled,
    sse_chunks,
    url_event,
)

SCORED = [
    prefilled(),
    TokenLogprob("He", b"He", -0.5, (("He", b"He", -0.5), ("A", b"A", -2.0))),
    Text("He"),
    TokenLogprob("y", b"y", float("-inf"), ()),
    Text("y"),
    finished(2),
]


def complete(engine: ScriptedEngine, **fields: Any) -> tuple[int, Any]:
    return post(app_with(engine), {"prompt": "Once", **fields}, path="/v1/completions")


def streamed(engine: ScriptedEngine, **fields: Any) -> list[Any]:
    event = url_event({"prompt": "Once", "stream": True, **fields}, path="/v1/completions")
    reply = app_with(engine, QWARM_INVOKE_MODE="RESPONSE_STREAM").handle(event, LambdaContext())
    text = b"".join(reply.pieces()).decode()
    reply.close()
    return sse_chunks(text)


def test_a_prompt_goes_on_as_it_is() -> None:
    engine = ScriptedEngine()
    status, answer = complete(engine)
    assert (status, answer["object"], engine.prompts) == (200, "text_completion", ["Once"])
    assert answer["choices"] == [{"index": 0, "text": "Hello world", "logprobs": None, "finish_reason": "stop"}]
    assert (answer["usage"]["total_tokens"], answer["id"][:5], engine.requests[0].max_tokens) == (48, "cmpl-", 16)
    Completion.model_validate(answer, strict=True)


@pytest.mark.parametrize(
    ("given", "prompt"),
    [("a", "a"), (["a"], "a"), ([1, 2], (1, 2)), ([[1, 2]], (1, 2)), (["<|im_end|>"], "<|im_end|>")],
)
def test_a_prompt_is_one_text_or_one_array_of_tokens(given: Any, prompt: Any) -> None:
    engine = ScriptedEngine()
    assert complete(engine, prompt=given)[0] == 200
    assert engine.prompts == [prompt]


@pytest.mark.parametrize(
    "given", [None, "", [], [[]], ["a", "b"], [[1], [2]], [1, "a"], [True], 5, {"a": 1}, [1.5], [[["a"]]]]
)
def test_any_other_prompt_is_refused(given: Any) -> None:
    status, answer = complete(ScriptedEngine(), prompt=given)
    assert (status, answer["error"]["param"], answer["error"]["code"]) == (400, "prompt", "invalid_value")


def test_a_prompt_is_required() -> None:
    status, answer = post(app_with(ScriptedEngine()), {}, path="/v1/completions")
    assert (status, answer["error"]["message"]) == (400, "'prompt' is required.")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"n": 2}, "n"),
        ({"echo": True, "logprobs": 1}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": [""]}, "stop[0]"),
    ],
)
def test_what_is_not_done_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    status, answer = complete(ScriptedEngine(), **fields)
    assert (status, answer["error"]["param"]) == (400, param)


def test_echo_puts_the_prompt_before_the_answer_whole_and_streamed() -> None:
    assert complete(ScriptedEngine(), echo=True)[1]["choices"][0]["text"] == "OnceHello world"
    assert complete(ScriptedEngine(), echo=True, prompt=[72, 105, 33])[1]["choices"][0]["text"] == "Hi!Hello world"
    chunks = streamed(ScriptedEngine(), echo=True)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks[:-1]) == "OnceHello world"


def test_log_probabilities_have_the_older_shape() -> None:
    found = complete(ScriptedEngine(SCORED), logprobs=2)[1]["choices"][0]["logprobs"]
    assert found == {
        "tokens": ["He", "y"],
        "token_logprobs": [-0.5, -9999.0],
        "top_logprobs": [{"He": -0.5, "A": -2.0}, {"y": -9999.0}],
        "text_offset": [0, 2],
    }


def test_a_stream_of_text_ends_with_the_reason_the_usage_and_done() -> None:
    chunks = streamed(ScriptedEngine(SCORED), logprobs=2, stream_options={"include_usage": True})
    assert chunks.pop() == "[DONE]"
    counted = chunks.pop()
    assert (counted["choices"], counted["usage"]["completion_tokens"]) == ([], 2)
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "stop"]
    offsets = [chunk["choices"][0]["logprobs"]["text_offset"] for chunk in chunks[:-1]]
    assert (offsets, chunks[-1]["choices"][0]["text"], chunks[-1]["choices"][0]["logprobs"]) == ([[0], [2]], "", None)
    assert len({chunk["id"] for chunk in [*chunks, counted]}) == 1


def test_a_text_streams_progress_is_a_comment_and_its_failure_an_error_event() -> None:
    engine = ScriptedEngine([Progress(5, 46), prefilled(), Text("a"), KeyError("x")])
    event = url_event({"prompt": "Once", "stream": True}, path="/v1/completions")
    reply = app_with(engine, QWARM_INVOKE_MODE="RESPONSE_STREAM").handle(event, LambdaContext())
    received: list[bytes] = []
    with pytest.raises(KeyError):
        received.extend(reply.pieces())
    assert received[0] == b": prefill 5/46\n\n"
    assert sse_chunks(received[-1].decode())[0]["error"]["code"] == "internal_error"
