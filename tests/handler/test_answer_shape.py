"""The answer as one object and as a stream: the fields that clients read, and nothing that confuses them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from engine.events import Event, Finished, Progress, Reasoning, Text, TokenLogprob, ToolArguments, ToolCall
from handler.response import Head, completion
from handler.stream import merged, sse, with_silences
from tests.handler.scripted import finished, prefilled, sse_chunks

HEAD = Head("qwen3.5-test", "fp_test")
TOOL_EVENTS: list[Event] = [
    prefilled(),
    Text("Let me check."),
    ToolCall(0, "call_1", "get_weather"),
    ToolArguments(0, '{"city": '),
    ToolArguments(0, '"Oslo"}'),
    ToolCall(1, "call_2", "now"),
    ToolArguments(1, "{}"),
    finished(9, reason="tool_calls"),
]


def streamed(events: Sequence[Event | None], include_usage: bool = False) -> list[Any]:
    return sse_chunks(b"".join(sse(events, HEAD, include_usage=include_usage)).decode())


def deltas(events: Sequence[Event]) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in streamed(events)[:-1]]


def test_an_answer_has_every_field_a_client_reads() -> None:
    answer = completion([prefilled(46, restored_at=40), Text("Hello"), Text("!"), finished(2)], HEAD)
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello!", "refusal": None, "annotations": []},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert answer["usage"] == {
        "prompt_tokens": 46,
        "completion_tokens": 2,
        "total_tokens": 48,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    assert (answer["object"], answer["model"], answer["system_fingerprint"]) == (
        "chat.completion",
        "qwen3.5-test",
        "fp_test",
    )
    ChatCompletion.model_validate(answer, strict=True)


def test_timings_carry_llama_servers_names_and_the_prefill_path() -> None:
    timings = completion([prefilled(46, restored_at=40), finished(2)], HEAD)["timings"]
    assert timings == {
        "cache_n": 40,
        "prompt_n": 6,
        "prompt_ms": 20.0,
        "prompt_per_token_ms": 3.333,
        "prompt_per_second": 300.0,
        "predicted_n": 2,
        "predicted_ms": 10.0,
        "predicted_per_token_ms": 5.0,
        "predicted_per_second": 200.0,
        "prefill_path": "base",
    }


def test_tool_calls_have_their_arguments_as_text_and_null_content_without_text() -> None:
    message = completion([event for event in TOOL_EVENTS if not isinstance(event, Text)], HEAD)["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"] == [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
        },
        {"id": "call_2", "type": "function", "function": {"name": "now", "arguments": "{}"}},
    ]


def test_a36_streamed_calls_begin_with_id_and_name_and_go_on_with_arguments_only() -> None:
    calls = [delta["tool_calls"][0] for delta in deltas(TOOL_EVENTS) if "tool_calls" in delta]
    assert calls[0] == {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": ""},
    }
    assert calls[1] == {"index": 0, "function": {"arguments": '{"city": '}}
    assert [call["index"] for call in calls] == [0, 0, 0, 1, 1]


def test_a36_streamed_arguments_joined_are_those_of_the_whole_answer() -> None:
    whole = completion(TOOL_EVENTS, HEAD)["choices"][0]["message"]["tool_calls"]
    pieces: dict[int, str] = {0: "", 1: ""}
    for delta in deltas(TOOL_EVENTS):
        for call in delta.get("tool_calls", ()):
            pieces[call["index"]] += call["function"]["arguments"]
    assert list(pieces.values()) == [call["function"]["arguments"] for call in whole]


@pytest.mark.parametrize("include_usage", [False, True])
def test_a49_a_stream_that_asks_has_a_usage_chunk_with_no_choices_and_others_count_in_their_last_one(
    include_usage: bool,
) -> None:
    chunks = streamed([prefilled(), Text("Hi"), finished(1)], include_usage)
    assert chunks.pop() == "[DONE]"
    last = chunks.pop() if include_usage else None
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "stop"]
    counts = [chunk.get("usage") for chunk in chunks]
    assert counts[:-1] == [None, None]
    assert (counts[-1] is None) == include_usage
    assert include_usage or counts[-1]["total_tokens"] == 47
    if last:
        assert (last["choices"], last["usage"]["total_tokens"]) == ([], 47)


def test_every_chunk_is_one_that_the_openai_client_knows() -> None:
    thought: list[Event] = [prefilled(), Reasoning("hm"), Text("Hi"), finished(2, 1)]
    for events in (TOOL_EVENTS, thought):
        chunks = streamed(events, include_usage=True)
        assert len({chunk["id"] for chunk in chunks[:-1]}) == 1
        for chunk in chunks[:-1]:
            ChatCompletionChunk.model_validate(chunk, strict=True)


def test_a51_a_chunk_without_anything_in_it_is_not_sent() -> None:
    events: list[Event] = [
        prefilled(),
        Text(""),
        Reasoning(""),
        ToolCall(0, "c", "f"),
        ToolArguments(0, ""),
        finished(),
    ]
    assert deltas(events) == [
        {"role": "assistant", "content": ""},
        {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {},
    ]


def test_a54_reasoning_cut_off_is_never_content() -> None:
    events: list[Event] = [
        prefilled(),
        Reasoning("I should "),
        Reasoning("look"),
        finished(5, 5, reason="length"),
    ]
    choice = completion(events, HEAD)["choices"][0]
    assert (choice["message"]["reasoning_content"], choice["message"]["content"]) == ("I should look", "")
    assert choice["finish_reason"] == "length"
    assert [delta.get("reasoning_content") for delta in deltas(events)] == [None, "I should ", "look", None]


def test_log_probabilities_come_with_the_text_of_their_tokens() -> None:
    tokens = [
        TokenLogprob("H", b"H", -0.5, (("H", b"H", -0.5), ("Y", b"Y", float("-inf")))),
        TokenLogprob("i", b"i", -1.0),
    ]
    events: list[Event] = [prefilled(), tokens[0], tokens[1], Text("Hi"), finished(2)]
    listed = completion(events, HEAD)["choices"][0]["logprobs"]["content"]
    assert [(item["token"], item["bytes"], item["logprob"]) for item in listed] == [
        ("H", [72], -0.5),
        ("i", [105], -1.0),
    ]
    assert listed[0]["top_logprobs"][1]["logprob"] == -9999.0
    chunks = streamed(events)
    assert [chunk["choices"][0]["logprobs"] is not None for chunk in chunks[:-1]] == [False, True, False]
    assert chunks[1]["choices"][0]["logprobs"]["content"] == listed


def test_progress_and_silence_are_comments() -> None:
    body = b"".join(sse([Progress(512, 2048), None, prefilled(), finished()], HEAD, include_usage=False))
    assert b"\n\n: prefill 512/2048\n\n: waiting\n\n" in body


def test_merged_events_give_the_same_answer_in_fewer_chunks() -> None:
    token = TokenLogprob("b", b"b", -1.0)
    events: list[Event] = [
        Progress(1, 2),
        prefilled(),
        Reasoning("x"),
        Reasoning("y"),
        Text("a"),
        token,
        Text("b"),
        *TOOL_EVENTS[1:],
    ]
    fewer = list(merged(events))
    calls = "ToolCall ToolArguments ToolCall ToolArguments"
    assert (
        " ".join(type(event).__name__ for event in fewer) == f"Prefilled Reasoning TokenLogprob Text {calls} Finished"
    )
    assert completion(fewer, HEAD)["choices"] == completion(events, HEAD)["choices"]


def test_events_that_end_without_finished_are_not_an_answer() -> None:
    events: list[Event] = [prefilled(), Text("Hi")]
    with pytest.raises(EOFError):
        completion(events, HEAD)
    with pytest.raises(EOFError):
        streamed(events)


def test_a_silence_shows_while_the_engine_is_at_work() -> None:
    def slow() -> Any:
        yield prefilled()
        time.sleep(0.12)
        yield finished()

    kinds = [type(event) for event in with_silences(slow(), after_s=0.05)]
    assert kinds[0] is type(prefilled()) and kinds[-1] is Finished
    assert type(None) in kinds


def test_a_silence_during_the_prefill_tells_how_far_it_is() -> None:
    def slow() -> Any:
        yield Progress(512, 2048)
        time.sleep(0.08)
        yield prefilled()

    events = list(with_silences(slow(), after_s=0.02))
    assert events[:2] == [Progress(512, 2048)] * 2


def test_a_failure_passes_through_the_silences() -> None:
    def broken() -> Any:
        yield prefilled()
        raise ArithmeticError("here")

    events = with_silences(broken(), after_s=1)
    next(events)
    with pytest.raises(ArithmeticError, match="here"):
        next(events)
