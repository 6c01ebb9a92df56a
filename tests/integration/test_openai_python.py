"""OpenAI's Python client: every way it asks, against the scripted and the real model."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.handler.scripted import KEY
from tests.integration import weather
from tests.integration.conftest import Served
from tests.integration.scripted_model import CITY, CITY_QUESTION, THINKING_QUESTION, WEATHER_QUESTION

TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the current weather for a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


class City(BaseModel):
    name: str
    population: int


class Guest(BaseModel):
    city: str
    age: int


def client_of(served: Served, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=served.url, api_key=KEY, max_retries=0, timeout=60, **options)


def asked(question: str) -> Any:
    return {"model": "qwarm", "messages": [{"role": "user", "content": question}]}


@pytest.fixture
def client(scripted: Served) -> openai.OpenAI:
    return client_of(scripted)


@pytest.fixture
def real_client(real: Served) -> openai.OpenAI:
    return client_of(real)


def test_plain(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**asked("Hi"))
    assert answer.choices[0].message.content == "Hello wörld!"
    assert answer.usage and answer.usage.prompt_tokens_details
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.system_fingerprint == "fp_scripted" and answer._request_id


def test_stream_with_usage(client: openai.OpenAI) -> None:
    chunks = list(client.chat.completions.create(**asked("Hi"), stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "Hello wörld!"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage and chunks[-1].usage.completion_tokens == 3


def test_reasoning_is_beside_the_content(client: openai.OpenAI) -> None:
    message: Any = client.chat.completions.create(**asked(THINKING_QUESTION)).choices[0].message
    assert (message.reasoning_content, message.content) == ("Hm, well.", "Done.")


def test_two_step_tools(client: openai.OpenAI, scripted: Served) -> None:
    body = asked(WEATHER_QUESTION) | {"tools": TOOLS}
    choice = client.chat.completions.create(**body).choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.tool_calls
    body["messages"].append(choice.message)
    for call in choice.message.tool_calls:
        city = json.loads(call.function.arguments)["city"]
        body["messages"].append({"role": "tool", "tool_call_id": call.id, "content": f"sunny in {city}"})
    assert (
        client.chat.completions.create(**body).choices[0].message.content == "It is sunny in Oslo and sunny in Bergen."
    )
    step: Any = scripted.requests[-1]
    assert [call["function"]["arguments"] for call in step.messages[1]["tool_calls"]] == [
        {"city": "Oslo"},
        {"city": "Bergen"},
    ]


def test_streamed_tools_with_the_stream_helper(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(**asked(WEATHER_QUESTION), tools=TOOLS) as stream:
        deltas = [event for event in stream if event.type == "tool_calls.function.arguments.delta"]
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls and len(deltas) >= 4
    assert [json.loads(call.function.arguments)["city"] for call in message.tool_calls] == ["Oslo", "Bergen"]
    assert message.content == "Let me look."


def test_structured(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(**asked(CITY_QUESTION), response_format=City)
    assert answer.choices[0].message.parsed == City(**CITY)  # type: ignore[arg-type]


def test_errors_have_their_class_code_and_param(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**asked("Hi"), n=2)
    assert (caught.value.code, caught.value.param, caught.value.type) == (
        "unsupported_value",
        "n",
        "invalid_request_error",
    )
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()
    with pytest.raises(openai.NotFoundError, match="/v1/chat/completions"):
        client.responses.create(model="qwarm", input="Hi")
    with pytest.raises(openai.NotFoundError, match="/v1/chat/completions"):
        client.embeddings.create(model="qwarm", input="Hi")
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(**asked("Hi") | {"model": "gpt-5"})


def test_models(client: openai.OpenAI) -> None:
    (model,) = client.models.list()
    assert client.models.retrieve(model.id).id == model.id


def test_text_completions(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="qwarm", prompt="Once", echo=True)
    assert answer.choices[0].text == "OnceHello world"
    pieces = client.completions.create(model="qwarm", prompt="Once", stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == "Hello world"


def test_a_real_model_answers_the_same_whole_and_streamed(real_client: openai.OpenAI) -> None:
    body = asked("Hi") | {"temperature": 0, "max_tokens": 24, "seed": 1}
    whole = real_client.chat.completions.create(**body)
    assert whole.usage and whole.usage.completion_tokens <= 24
    again = real_client.chat.completions.create(**body)
    assert again.usage and again.usage.prompt_tokens_details
    assert again.usage.prompt_tokens_details.cached_tokens
    chunks = list(real_client.chat.completions.create(**body, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole.choices[0].message.content
    assert chunks[-1].usage and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len({answer.system_fingerprint for answer in (whole, again, chunks[0])}) == 1


@pytest.mark.parametrize("streaming", [False, True])
def test_a_real_model_calls_the_tool_and_tells_its_result(real_client: openai.OpenAI, streaming: bool) -> None:
    body = asked(weather.QUESTION) | {"tools": TOOLS, "temperature": 0}

    def message() -> Any:
        if not streaming:
            return real_client.chat.completions.create(**body).choices[0].message
        with real_client.chat.completions.stream(**body) as chunks:
            return chunks.get_final_completion().choices[0].message

    asking = message()
    (call,) = asking.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Bergen"})
    result = weather.get_weather(**json.loads(call.function.arguments))
    body["messages"] += [asking, {"role": "tool", "tool_call_id": call.id, "content": result}]
    assert message().content == weather.ANSWER


def test_a_real_model_fills_a_schema_from_the_question(real_client: openai.OpenAI) -> None:
    body = asked("Note: the age is 31 and the city is Lima.") | {"temperature": 0}
    answer = real_client.chat.completions.parse(**body, response_format=Guest)
    assert answer.choices[0].message.parsed == Guest(city="Lima", age=31)


def test_a_real_models_log_probabilities_spell_its_answer(real_client: openai.OpenAI) -> None:
    body = asked("Hi") | {
        "temperature": 0,
        "max_tokens": 24,
        "logprobs": True,
        "top_logprobs": 3,
        "reasoning_effort": "none",
    }
    choice = real_client.chat.completions.create(**body).choices[0]
    assert choice.logprobs and choice.logprobs.content
    spelled = b"".join(bytes(token.bytes or ()) for token in choice.logprobs.content)
    assert spelled.decode(errors="replace") == choice.message.content
    assert all(len(token.top_logprobs) == 3 for token in choice.logprobs.content)
    streamed = [
        token
        for chunk in real_client.chat.completions.create(**body, stream=True)
        if chunk.choices[0].logprobs
        for token in chunk.choices[0].logprobs.content or ()
    ]
    assert [token.token for token in streamed] == [token.token for token in choice.logprobs.content]


def test_a_real_models_text_completion_spells_its_tokens(real_client: openai.OpenAI) -> None:
    answer = real_client.completions.create(model="qwarm", prompt="Once upon", max_tokens=12, logprobs=2, temperature=0)
    scores = answer.choices[0].logprobs
    assert scores and scores.tokens and scores.text_offset and answer.usage
    assert len(scores.tokens) == answer.usage.completion_tokens == 12
    assert scores.text_offset[0] == 0 and len(scores.top_logprobs or ()) == 12


SMALL: Any = {"type": "object", "properties": {"name": {"enum": ["Oslo", "Bergen"]}}, "required": ["name"]}


def test_a_real_model_is_held_to_a_schema_and_to_a_named_tool(real_client: openai.OpenAI) -> None:
    body = asked(CITY_QUESTION) | {"reasoning_effort": "none", "max_tokens": 200}
    schema = {**SMALL, "additionalProperties": False}
    shape: Any = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema, "strict": True}}
    answer = real_client.chat.completions.create(**body, response_format=shape)
    assert json.loads(answer.choices[0].message.content or "")["name"] in ("Oslo", "Bergen")
    tools: Any = [*TOOLS, {"type": "function", "function": {"name": "city", "parameters": schema}}]
    named: Any = {"type": "function", "function": {"name": "city"}}
    for stream in (False, True):
        if stream:
            with real_client.chat.completions.stream(**body, tools=tools, tool_choice=named) as chunks:
                message: Any = chunks.get_final_completion().choices[0].message
        else:
            message = real_client.chat.completions.create(**body, tools=tools, tool_choice=named).choices[0].message
        assert [call.function.name for call in message.tool_calls] == ["city"]
        assert json.loads(message.tool_calls[0].function.arguments)["name"] in ("Oslo", "Bergen")


def test_a_real_model_is_refused_a_prompt_longer_than_its_context(real_client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="maximum context length is") as caught:
        real_client.chat.completions.create(**asked("word " * 400_000))
    assert caught.value.code == "context_length_exceeded"
