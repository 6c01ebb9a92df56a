"""langchain-openai: messages, streams, tools and both ways to structured output."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from tests.handler.scripted import KEY
from tests.integration import weather
from tests.integration.conftest import Served
from tests.integration.scripted_model import CITY, CITY_QUESTION, THINKING_QUESTION, WEATHER_QUESTION

langchain_openai: Any = pytest.importorskip("langchain_openai")
tools: Any = pytest.importorskip("langchain_core.tools")
messages: Any = pytest.importorskip("langchain_core.messages")


class City(BaseModel):
    """A city."""

    name: str
    population: int


@tools.tool
def get_weather(city: str) -> str:
    """Get the current weather for a city."""
    return f"sunny in {city}"


def model(served: Served, **options: Any) -> Any:
    return langchain_openai.ChatOpenAI(
        model="qwarm", base_url=served.url, api_key=KEY, max_retries=0, timeout=60, **options
    )


def test_plain(scripted: Served) -> None:
    answer = model(scripted).invoke("Hi")
    assert (answer.content, answer.usage_metadata["total_tokens"]) == ("Hello wörld!", 49)
    assert answer.response_metadata["finish_reason"] == "stop"


def test_stream(scripted: Served) -> None:
    chunks = list(model(scripted, stream_usage=True).stream("Hi"))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert (whole.content, whole.usage_metadata["input_tokens"]) == ("Hello wörld!", 46)


@pytest.mark.parametrize("streaming", [False, True])
def test_two_step_tools(scripted: Served, streaming: bool) -> None:
    bound = model(scripted, streaming=streaming).bind_tools([get_weather])
    conversation: list[Any] = [messages.HumanMessage(WEATHER_QUESTION)]
    step = bound.invoke(conversation)
    assert [call["args"] for call in step.tool_calls] == [{"city": "Oslo"}, {"city": "Bergen"}]
    conversation += [step, *(get_weather.invoke(call) for call in step.tool_calls)]
    assert bound.invoke(conversation).content == "It is sunny in Oslo and sunny in Bergen."


@pytest.mark.parametrize("streaming", [False, True])
def test_a_real_model_calls_the_tool_and_tells_its_result(real: Served, streaming: bool) -> None:
    tool = tools.tool(weather.get_weather)
    bound = model(real, temperature=0, streaming=streaming).bind_tools([tool])
    conversation: list[Any] = [messages.HumanMessage(weather.QUESTION)]
    step = bound.invoke(conversation)
    assert [(call["name"], call["args"]) for call in step.tool_calls] == [("get_weather", {"city": "Bergen"})]
    conversation += [step, *(tool.invoke(call) for call in step.tool_calls)]
    assert bound.invoke(conversation).content == weather.ANSWER


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_structured(scripted: Served, method: str) -> None:
    assert model(scripted).with_structured_output(City, method=method).invoke(CITY_QUESTION) == City(**CITY)


def test_reasoning_does_not_disturb(scripted: Served) -> None:
    assert model(scripted).invoke(THINKING_QUESTION).content == "Done."


def test_log_probabilities(real: Served) -> None:
    answer = model(real, temperature=0, max_tokens=8, reasoning_effort="none", logprobs=True).invoke("Hi")
    spelled = bytes(byte for token in answer.response_metadata["logprobs"]["content"] for byte in token["bytes"])
    assert spelled.decode(errors="replace") == answer.content
