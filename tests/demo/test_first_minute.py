"""What `make run` shows, without the runtime around it: an agent's two turns, on every kernel set of this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demo.evaluate import load
from engine.native import isas
from tests.handler.scripted import LambdaContext, app_loading

ROOT = Path(__file__).parents[2]
EVENTS = ("chat_tools", "chat_tools", "chat_tool_result", "chat_second_turn")


def calls(message: dict[str, Any]) -> list[tuple[str, Any]]:
    functions = [call["function"] for call in message["tool_calls"]]
    return [(function["name"], json.loads(function["arguments"])) for function in functions]


@pytest.mark.parametrize("isa", isas())
def test_the_recorded_conversation_is_answered_and_its_prefixes_are_reused(isa: str) -> None:
    app = app_loading(lambda: load(str(ROOT / "models" / "qwarm-demo.gguf"), isa))
    events = [json.loads((ROOT / "events" / f"{name}.json").read_text()) for name in EVENTS]
    answers = [json.loads(app.handle(event, LambdaContext())["body"]) for event in events]
    first, again, told, second = (answer["choices"][0]["message"] for answer in answers)
    assert calls(first) == calls(again) == [("free_rooms", {"from_date": "2027-06-03", "nights": 2})]
    assert told["content"] == "There is room 12 for 118 and room 15 for 126."
    assert calls(second) == [("free_rooms", {"from_date": "2027-07-15", "nights": 3})]
    usages = [answer["usage"] for answer in answers]
    prompts = [(usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]) for usage in usages]
    answer_starts, call_ends = 251 - 4, 251 + 44  # before the think block that later turns drop; after the call
    assert prompts == [(251, 0), (251, 251), (342, call_ends), (388, answer_starts)]
