"""`make run` prints calls as calls, and fails when a prompt did not start where it should."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import run_events

EVENT = Path(__file__).parents[2] / "events" / "chat_tool_result.json"
CALL = {"id": "call_1", "type": "function", "function": {"name": "free_rooms", "arguments": '{"nights": 3}'}}
PREFILL = {
    "message": "prefill",
    "prefill_path": "extend",
    "prompt_tokens": 342,
    "restored_at": 295,
    "prefilled": 47,
    "prefill_ms": 10.0,
    "prefill_tok_s": 4700.0,
    "kernel": "avx2/gemm_i8",
}


class Answering(run_events.Environment):
    """An environment that answers every event with one body."""

    def __init__(self, body: str, content_type: str = "application/json", status: int = 200) -> None:
        self._answer = {"statusCode": status, "headers": {"content-type": content_type}, "body": body}

    def invoke(self, event: bytes) -> Any:
        return self._answer

    def new_lines(self) -> Iterator[str]:
        yield from ("START", json.dumps(PREFILL))


def completion(**message: Any) -> str:
    return json.dumps({"choices": [{"message": {"role": "assistant", **message}}]})


@pytest.mark.parametrize(("expected", "met"), [("extend", True), ("", True), ("anchor", False)])
def test_another_path_than_the_expected_one_is_a_failure(
    expected: str, met: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_events.show(Answering(completion(content="Yes.")), EVENT, expected, raw=False) is met
    out, err = capsys.readouterr()
    assert "extend: 342 tokens = 295 reused + 47 computed, 10.0 ms, 4,700 tok/s, avx2/gemm_i8" in out
    assert ("started from extend, expected anchor" in err) is not met


def test_a_refusal_is_a_failure_that_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    refusing = Answering('{"error": {"message": "No such model."}}', status=404)
    assert not run_events.show(refusing, EVENT, "", raw=False)
    assert "error       No such model." in capsys.readouterr().out


def test_a_call_is_shown_with_its_arguments_streamed_or_whole() -> None:
    whole = Answering(completion(content=None, tool_calls=[CALL])).invoke(b"")
    begun = CALL | {"index": 0, "function": {"name": "free_rooms", "arguments": '{"nig'}}
    rest = {"index": 0, "function": {"arguments": 'hts": 3}'}}
    deltas = [{"content": "Let me "}, {"content": "look."}, {"tool_calls": [begun]}, {"tool_calls": [rest]}]
    chunks = [f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\n" for delta in deltas]
    streamed = Answering("".join([*chunks, "data: [DONE]\n\n"]), "text/event-stream").invoke(b"")
    assert run_events.said(whole) == [("call", "free_rooms(nights=3)")]
    assert run_events.said(streamed) == [("answer", "Let me look."), ("call", "free_rooms(nights=3)")]


def test_what_is_new_in_a_request_is_shown_and_not_its_history() -> None:
    assert run_events.asked(json.loads(EVENT.read_text())) == [
        ("tool", '[{"room": "12", "price": 118}, {"room": "15", "price": 126}]')
    ]
    assert run_events.asked({"body": "{not json"}) == run_events.asked({"warmup": True}) == []
