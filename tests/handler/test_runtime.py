"""The function run by awslambdaric and our client, in an emulated Lambda with OpenAI's client before it."""

from __future__ import annotations

import http.client
import inspect
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from awslambdaric.lambda_runtime_client import LambdaRuntimeClient
from awslambdaric.lambda_runtime_marshaller import LambdaMarshaller

from handler.event import Reply
from handler.runtime import StreamingClient
from tests.emulator import HTTP_CONTENT_TYPE, PRELUDE_END, Lambda
from tests.handler.scripted import KEY, chat, sse_chunks, url_event

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.handler.scripted_app"]


@pytest.fixture(scope="module")
def function() -> Iterator[Lambda]:
    with Lambda(COMMAND, ROOT, {"QWARM_API_KEY": KEY, "QWARM_INVOKE_MODE": "RESPONSE_STREAM"}) as running:
        yield running


@pytest.fixture(scope="module")
def buffered() -> Iterator[Lambda]:
    with Lambda(COMMAND, ROOT, {"QWARM_API_KEY": KEY, "QWARM_INVOKE_MODE": "BUFFERED"}) as running:
        yield running


@pytest.fixture(scope="module")
def client(function: Lambda) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{function.url}/v1", api_key=KEY, max_retries=0, timeout=20)


def ask(client: openai.OpenAI, text: str, **fields: Any) -> Any:
    return client.chat.completions.create(model="qwarm", messages=[{"role": "user", "content": text}], **fields)


def test_awslambdaric_still_has_the_methods_that_are_overridden() -> None:
    for ours, theirs, name in (
        (StreamingClient, LambdaRuntimeClient, "post_invocation_result"),
        (StreamingClient, LambdaRuntimeClient, "wait_next_invocation"),
        (type(StreamingClient.marshaller), LambdaMarshaller, "marshal_response"),
    ):
        parameters = [
            [(p.name, p.default) for p in inspect.signature(getattr(cls, name)).parameters.values()]
            for cls in (ours, theirs)
        ]
        assert parameters[0] == parameters[1], name
    assert "marshaller" in vars(LambdaRuntimeClient.__mro__[1])


def test_the_openai_client_gets_an_answer_and_the_request_id(client: openai.OpenAI) -> None:
    answer = ask(client, "Hi")
    assert answer.choices[0].message.content == "Hello wörld"
    assert answer.usage.prompt_tokens_details.cached_tokens == 0
    assert len(answer._request_id) == 36


def test_a_stream_reaches_the_openai_client_as_it_is_made(client: openai.OpenAI) -> None:
    times: list[float] = []
    text, usage = "", None
    for chunk in ask(client, "slow", stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage
        if chunk.choices and chunk.choices[0].delta.content:
            text += chunk.choices[0].delta.content
            times.append(time.monotonic())
    assert usage
    assert (text, usage.completion_tokens) == ("Hello!", 3)
    assert times[2] - times[0] > 0.1  # the function pauses twice; gathered, they would come together


def test_the_openai_client_raises_its_own_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="'temperature' should be less than or equal to 2"):
        ask(client, "Hi", temperature=3)
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, "too long", stream=True)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.AuthenticationError):
        ask(client.with_options(api_key="wrong"), "Hi")
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="qwarm", input="Hi")
    with pytest.raises(openai.NotFoundError, match="gpt-4"):
        client.models.retrieve("gpt-4")
    with pytest.raises(openai.InternalServerError):
        ask(client, "early bug")


def test_the_openai_client_lists_the_model(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["qwen3.5-scripted"]


@pytest.mark.parametrize(("script", "said"), [("break", "the logits are not numbers"), ("bug", "failed to answer")])
def test_a50_the_openai_client_raises_what_broke_a_stream(client: openai.OpenAI, script: str, said: str) -> None:
    with pytest.raises(openai.APIError, match=said):
        list(ask(client, script, stream=True))
    assert ask(client, "Hi").choices[0].message.content == "Hello wörld"


@pytest.mark.parametrize("streams", [True, False])
def test_what_is_done_after_an_answer_keeps_only_the_next_event_waiting(
    function: Lambda, buffered: Lambda, streams: bool
) -> None:
    running = function if streams else buffered
    running.invoke(url_event(chat("Hi"))).body()
    times = [time.monotonic()]
    for text in ("busy afterwards", "Hi"):
        running.invoke(url_event(chat(text, stream=streams))).body()
        times.append(time.monotonic())
    assert times[1] - times[0] < 0.4
    assert times[2] - times[1] > 0.4


def test_a82_a_streamed_answer_is_a_prelude_eight_nuls_and_the_body(function: Lambda) -> None:
    invocation = function.invoke(url_event(chat("Hi", stream=True)))
    prelude, _, body = invocation.body().partition(PRELUDE_END)
    answer = json.loads(prelude)
    assert (invocation.streamed, invocation.content_type, answer["statusCode"]) == (
        True,
        HTTP_CONTENT_TYPE,
        200,
    )
    assert answer["headers"]["content-type"].startswith("text/event-stream")
    assert not {"content-length", "connection", "transfer-encoding"} & set(answer["headers"])
    assert sse_chunks(body.decode())[-1] == "[DONE]"
    assert invocation.trailers == {}


def test_a82_a_bad_request_in_streaming_mode_is_a_real_400(function: Lambda) -> None:
    invocation = function.invoke(url_event(chat(n=2, stream=True)))
    prelude, _, body = invocation.body().partition(PRELUDE_END)
    assert json.loads(prelude)["statusCode"] == 400
    assert json.loads(body)["error"]["param"] == "n"


def test_a_stream_that_broke_ends_with_the_error_trailer(function: Lambda) -> None:
    invocation = function.invoke(url_event(chat("break", stream=True)))
    body = invocation.body().partition(PRELUDE_END)[2].decode()
    assert sse_chunks(body)[-1]["error"]["code"] == "numeric_fault"
    assert invocation.trailers["lambda-runtime-function-error-type"] == "Runtime.NumericFault"


def test_a_load_balancer_reads_a_buffered_answer_even_where_the_url_streams(function: Lambda) -> None:
    event = {
        "requestContext": {"elb": {"targetGroupArn": "arn:aws:elasticloadbalancing:x"}},
        "httpMethod": "GET",
        "path": "/health",
        "multiValueHeaders": {"host": ["example.com"]},
    }
    invocation = function.invoke(event)
    answer = json.loads(invocation.body())
    assert (invocation.streamed, answer["statusCode"]) == (False, 200)
    assert answer["multiValueHeaders"]["content-type"] == ["application/json"]


def test_a_direct_invocation_is_answered_with_the_object_in_either_mode(function: Lambda, buffered: Lambda) -> None:
    for each in (function, buffered):
        assert json.loads(each.invoke(chat("Hi")).body())["choices"][0]["message"]["content"] == "Hello wörld"


def test_a_buffered_function_answers_with_status_headers_and_body(buffered: Lambda) -> None:
    client = openai.OpenAI(base_url=f"{buffered.url}/v1", api_key=KEY, max_retries=0, timeout=20)
    assert ask(client, "Hi").choices[0].message.content == "Hello wörld"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in ask(client, "slow", stream=True))
    assert text == "Hello!"


def test_a83_an_answer_too_large_is_an_error_and_the_environment_lives_on(buffered: Lambda) -> None:
    answer = json.loads(buffered.invoke(url_event(chat("huge"))).body())
    assert answer["statusCode"] == 500
    assert json.loads(buffered.invoke(url_event(chat("Hi"))).body())["statusCode"] == 200


def test_a79_a_timeout_inside_the_margin_is_answered_and_not_run_into(
    function: Lambda,
) -> None:
    invocation = function.invoke(url_event(chat("Hi", stream=True)), timeout_ms=1000)
    prelude = json.loads(invocation.body().partition(PRELUDE_END)[0])
    assert prelude["statusCode"] == 504


def test_a81_a_runtime_api_that_hangs_up_ends_the_answer_and_not_the_process() -> None:
    closed: list[int] = []
    pieces = (b"data: x\n\n" * 1000 for _ in range(100_000))
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            connection, _ = server.accept()
            connection.recv(1000)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        client = StreamingClient(f"127.0.0.1:{server.getsockname()[1]}")
        client.post_invocation_result("id", Reply(200, {}, chunks=pieces, close=lambda: closed.append(1)))
        thread.join(5)
    assert closed == [1]
    assert next(pieces, None) is not None


def test_a88_standard_output_stays_empty_and_the_log_is_one_json_object_per_line(function: Lambda) -> None:
    function.invoke(url_event(chat("Hi"))).body()
    function.invoke(url_event(path="/health", method="GET")).body()
    assert function.stdout() == ""
    events = [json.loads(line) for line in function.stderr().splitlines()]
    assert {"ready", "prefill", "completion", "metrics"} <= {event["message"] for event in events}
    assert all({"timestamp", "level"} <= set(event) for event in events)


def test_a_wrong_setting_fails_the_init_phase_in_one_sentence() -> None:
    with Lambda(COMMAND, ROOT, {"QWARM_API_KEY": "", "QWARM_AUTH": ""}) as running:
        assert running.process.wait(20) == 1
        assert running.init_error is not None
        assert running.init_error["errorMessage"].startswith("QWARM_API_KEY is not set")


def test_a_wrong_path_over_http_keeps_the_connection_usable(function: Lambda) -> None:
    connection = http.client.HTTPConnection(function.url.removeprefix("http://"))
    for path, status in (("/nowhere", 404), ("/health", 200)):
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        assert response.status == status


def test_a_function_without_its_model_file_answers_with_an_error_and_lives() -> None:
    environ = {"QWARM_API_KEY": KEY, "QWARM_MODEL": "/nowhere/model.gguf"}
    with Lambda([sys.executable, "-m", "handler"], ROOT, environ) as running:
        for _ in range(2):
            answer = json.loads(running.invoke(url_event(chat("Hi"))).body())
            assert (answer["statusCode"], json.loads(answer["body"])["error"]["code"]) == (
                500,
                "model_unavailable",
            )
        health = json.loads(running.invoke(url_event(path="/health", method="GET")).body())
        assert (health["statusCode"], json.loads(health["body"])) == (503, {"status": "failed"})
        assert "/nowhere/model.gguf" in running.stderr()
