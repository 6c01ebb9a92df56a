"""litellm: its OpenAI provider and the one it has for self-hosted servers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from tests.handler.scripted import KEY
from tests.integration import weather
from tests.integration.conftest import Served
from tests.integration.scripted_model import CITY, CITY_QUESTION, WEATHER_QUESTION
from tests.integration.test_openai_python import TOOLS

litellm: Any = pytest.importorskip("litellm")


class City(BaseModel):
    name: str
    population: int


@pytest.fixture(params=["openai/qwarm", "hosted_vllm/qwarm"])
def options(request: pytest.FixtureRequest, scripted: Served) -> dict[str, Any]:
    return {"model": request.param, "api_base": scripted.url, "api_key": KEY, "num_retries": 0}


def asked(question: str) -> list[Any]:
    return [{"role": "user", "content": question}]


def test_plain(options: Any) -> None:
    answer = litellm.completion(messages=asked("Hi"), **options)
    assert (answer.choices[0].message.content, answer.usage.total_tokens) == ("Hello wörld!", 49)


def test_stream(options: Any) -> None:
    chunks = list(
        litellm.completion(messages=asked("Hi"), stream=True, stream_options={"include_usage": True}, **options)
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Hello wörld!"
    whole = litellm.stream_chunk_builder(chunks)
    assert (whole.choices[0].finish_reason, whole.usage.prompt_tokens) == ("stop", 46)


@pytest.mark.parametrize("stream", [False, True])
def test_two_step_tools(options: Any, stream: bool) -> None:
    messages = asked(WEATHER_QUESTION)
    answer = litellm.completion(messages=messages, tools=TOOLS, tool_choice="auto", stream=stream, **options)
    choice = (litellm.stream_chunk_builder(list(answer)) if stream else answer).choices[0]
    assert choice.finish_reason == "tool_calls"
    messages.append(choice.message)
    for call in choice.message.tool_calls:
        city = json.loads(call.function.arguments)["city"]
        messages.append({"role": "tool", "tool_call_id": call.id, "content": f"sunny in {city}"})
    answer = litellm.completion(messages=messages, tools=TOOLS, **options)
    assert answer.choices[0].message.content == "It is sunny in Oslo and sunny in Bergen."


@pytest.mark.parametrize("provider", ["openai", "hosted_vllm"])
def test_a_real_model_calls_the_tool_and_tells_its_result(real: Served, provider: str) -> None:
    options = {"model": f"{provider}/qwarm", "api_base": real.url, "api_key": KEY, "temperature": 0, "tools": TOOLS}
    messages = asked(weather.QUESTION)
    asking = litellm.completion(messages=messages, **options).choices[0].message
    (call,) = asking.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Bergen"})
    result = weather.get_weather(**json.loads(call.function.arguments))
    messages += [asking, {"role": "tool", "tool_call_id": call.id, "content": result}]
    assert litellm.completion(messages=messages, **options).choices[0].message.content == weather.ANSWER


def test_structured(options: Any) -> None:
    answer = litellm.completion(messages=asked(CITY_QUESTION), response_format=City, **options)
    assert json.loads(answer.choices[0].message.content) == CITY


def test_a_prompt_over_the_context_is_its_own_class(real: Served) -> None:
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(model="openai/qwarm", api_base=real.url, api_key=KEY, messages=asked("word " * 400_000))


def test_a_wrong_key_is_its_own_class(options: Any) -> None:
    with pytest.raises(litellm.AuthenticationError):
        litellm.completion(messages=asked("Hi"), **options | {"api_key": "wrong"})


def test_a_real_model_answers_and_streams(real: Served) -> None:
    options = {"model": "openai/qwarm", "api_base": real.url, "api_key": KEY, "temperature": 0, "max_tokens": 16}
    whole = litellm.completion(messages=asked("Hi"), reasoning_effort="none", **options)
    chunks = list(litellm.completion(messages=asked("Hi"), reasoning_effort="none", stream=True, **options))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content != ""
