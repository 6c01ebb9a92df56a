"""pydantic-ai: agents with tools, streams, and structured output by tool and by schema."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from tests.handler.scripted import KEY
from tests.integration import weather
from tests.integration.conftest import Served
from tests.integration.scripted_model import CITY, CITY_QUESTION, THINKING_QUESTION, WEATHER_QUESTION

pydantic_ai: Any = pytest.importorskip("pydantic_ai")
models: Any = pytest.importorskip("pydantic_ai.models.openai")
providers: Any = pytest.importorskip("pydantic_ai.providers.openai")


class City(BaseModel):
    name: str
    population: int


def agent(served: Served, **options: Any) -> Any:
    provider = providers.OpenAIProvider(base_url=served.url, api_key=KEY)
    return pydantic_ai.Agent(models.OpenAIChatModel("qwarm", provider=provider), **options)


def with_weather(served: Served) -> Any:
    assistant = agent(served)

    @assistant.tool_plain
    def get_weather(city: str) -> str:
        """Get the current weather for a city."""
        return f"sunny in {city}"

    return assistant


def test_plain(scripted: Served) -> None:
    result = agent(scripted).run_sync("Hi")
    assert (result.output, result.usage.input_tokens, result.usage.output_tokens) == ("Hello wörld!", 46, 3)


@pytest.mark.anyio
async def test_stream(scripted: Served) -> None:
    async with agent(scripted).run_stream("Hi") as result:
        pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
    assert pieces == ["Hello", " wörld", "!"]
    assert result.usage.output_tokens == 3


def test_two_step_tools(scripted: Served) -> None:
    result = with_weather(scripted).run_sync(WEATHER_QUESTION)
    assert result.output == "It is sunny in Oslo and sunny in Bergen."
    assert len(scripted.requests) == 2


@pytest.mark.anyio
async def test_streamed_two_step_tools(scripted: Served) -> None:
    async with with_weather(scripted).run_stream(WEATHER_QUESTION) as result:
        assert await result.get_output() in ("It is sunny in Oslo and sunny in Bergen.", "Let me look.")


def test_a_real_model_calls_the_tool_and_tells_its_result(real: Served) -> None:
    assistant = agent(real, tools=[weather.get_weather], model_settings={"temperature": 0})
    result = assistant.run_sync(weather.QUESTION)
    assert (result.output, result.usage.requests, result.usage.tool_calls) == (weather.ANSWER, 2, 1)


@pytest.mark.parametrize("mode", ["ToolOutput", "NativeOutput", "PromptedOutput"])
def test_structured(scripted: Served, mode: str) -> None:
    result = agent(scripted, output_type=getattr(pydantic_ai, mode)(City)).run_sync(CITY_QUESTION)
    assert result.output == City(**CITY)  # type: ignore[arg-type]


def test_reasoning_becomes_a_thinking_part(scripted: Served) -> None:
    result = agent(scripted).run_sync(THINKING_QUESTION)
    kinds = [part.part_kind for part in result.all_messages()[-1].parts]
    assert (kinds, result.output) == (["thinking", "text"], "Done.")


def test_a_refusal_is_an_http_error_with_our_words(scripted: Served) -> None:
    with pytest.raises(pydantic_ai.exceptions.ModelHTTPError, match="should be 1, not 2"):
        agent(scripted).run_sync("Hi", model_settings={"extra_body": {"n": 2}})
