"""openai-agents over its chat-completions model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from tests.handler.scripted import KEY
from tests.integration import weather
from tests.integration.conftest import Served
from tests.integration.scripted_model import CITY, CITY_QUESTION, WEATHER_QUESTION

agents: Any = pytest.importorskip("agents")
openai: Any = pytest.importorskip("openai")

pytestmark = pytest.mark.anyio


class City(BaseModel):
    name: str
    population: int


def get_weather(city: str) -> str:
    """Get the current weather for a city."""
    return f"sunny in {city}"


Make = Callable[..., Any]


@pytest.fixture
async def agent(scripted: Served) -> AsyncIterator[Make]:
    """Makes agents; their client is closed in the loop it was used in."""
    async with openai.AsyncOpenAI(base_url=scripted.url, api_key=KEY, max_retries=0) as client:
        model = agents.OpenAIChatCompletionsModel("qwarm", client)
        yield partial(agents.Agent, name="Assistant", instructions="Be brief.", model=model)


async def test_plain(agent: Make) -> None:
    result = await agents.Runner.run(agent(), "Hi")
    assert result.final_output == "Hello wörld!"
    assert result.context_wrapper.usage.total_tokens == 49


async def test_stream_counts_its_tokens_although_it_does_not_ask_for_them(agent: Make) -> None:
    result = agents.Runner.run_streamed(agent(), "Hi")
    deltas = [
        event.data.delta
        async for event in result.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    assert ("".join(deltas), result.final_output) == ("Hello wörld!", "Hello wörld!")
    assert result.context_wrapper.usage.total_tokens == 49


async def test_two_step_tools(agent: Make, scripted: Served) -> None:
    result = await agents.Runner.run(agent(tools=[agents.function_tool(get_weather)]), WEATHER_QUESTION)
    assert result.final_output == "It is sunny in Oslo and sunny in Bergen."
    assert len(scripted.requests) == 2


async def test_streamed_two_step_tools(agent: Make) -> None:
    assistant = agent(tools=[agents.function_tool(get_weather)])
    result = agents.Runner.run_streamed(assistant, WEATHER_QUESTION)
    outputs = [
        event.item.output async for event in result.stream_events() if getattr(event, "name", "") == "tool_output"
    ]
    assert outputs == ["sunny in Oslo", "sunny in Bergen"]
    assert result.final_output == "It is sunny in Oslo and sunny in Bergen."


async def test_a_real_model_calls_the_tool_and_tells_its_result(real: Served) -> None:
    async with openai.AsyncOpenAI(base_url=real.url, api_key=KEY, max_retries=0) as client:
        assistant = agents.Agent(
            name="Assistant",
            instructions="You are a helpful assistant.",
            model=agents.OpenAIChatCompletionsModel("qwarm", client),
            model_settings=agents.ModelSettings(temperature=0),
            tools=[agents.function_tool(weather.get_weather)],
        )
        result = await agents.Runner.run(assistant, weather.QUESTION)
    assert (result.final_output, len(result.raw_responses)) == (weather.ANSWER, 2)


async def test_structured(agent: Make) -> None:
    result = await agents.Runner.run(agent(output_type=City), CITY_QUESTION)
    assert result.final_output == City(**CITY)  # type: ignore[arg-type]
