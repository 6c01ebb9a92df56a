"""A model that says sensible things, so that clients can be seen to understand them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from engine.events import Event, Reasoning, Text, ToolArguments, ToolCall
from engine.request import ChatRequest
from tests.handler.scripted import ScriptedEngine, Step, finished, prefilled

WEATHER_QUESTION = "What is the weather in Oslo and in Bergen?"
CITY_QUESTION = "Describe the capital of Norway."
THINKING_QUESTION = "Think about it."
CITY = {"name": "Oslo", "population": 717710}


class ScriptedModel(ScriptedEngine):
    """Answers the questions above and greets otherwise.

    The weather takes two tool calls, which are answered by what the tools said; the city is JSON, or the arguments
    of the only tool.
    """

    def chat(self, request: ChatRequest, remaining_ms: Callable[[], float]) -> Iterator[Event]:
        self._scripts = [_script(request)]
        return super().chat(request, remaining_ms)


def _script(request: ChatRequest) -> list[Step]:
    last = request.messages[-1]
    results = [message["content"] for message in request.messages if message["role"] == "tool"]
    names = [tool["function"]["name"] for tool in request.tools]
    asked = next((str(message["content"]) for message in request.messages[::-1] if message["role"] == "user"), "")
    if last["role"] == "tool":
        return _said("It is ", f"{' and '.join(results)}.")
    if "get_weather" in names and not asked.startswith(WEATHER_QUESTION):
        return [prefilled(), *_call(0, "get_weather", {"location": "here"}), finished(9, reason="tool_calls")]
    if WEATHER_QUESTION in asked and names:
        calls = [_call(index, "get_weather", {"city": city}) for index, city in enumerate(("Oslo", "Bergen"))]
        return [prefilled(), Text("Let me look."), *calls[0], *calls[1], finished(20, reason="tool_calls")]
    if CITY_QUESTION in asked and names:
        return [prefilled(), *_call(0, names[0], CITY), finished(20, reason="tool_calls")]
    if CITY_QUESTION in asked:
        return _said('{"name": "Os', 'lo", "population": 717710}')
    if THINKING_QUESTION in asked:
        return [prefilled(), Reasoning("Hm, "), Reasoning("well."), Text("Done."), finished(3, 2)]
    return _said("Hello", " wörld", "!")


def _said(*pieces: str) -> list[Step]:
    return [prefilled(), *(Text(piece) for piece in pieces), finished(len(pieces))]


def _call(index: int, name: str, arguments: object) -> list[Step]:
    text = json.dumps(arguments)
    pieces = (text[: len(text) // 2], text[len(text) // 2 :])
    return [ToolCall(index, f"call_{name}_{index}", name), *(ToolArguments(index, piece) for piece in pieces)]
