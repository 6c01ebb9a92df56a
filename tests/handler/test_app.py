"""The handler over a scripted engine: routes, refusals, deadlines and the log."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import (
    Busy,
    ContextFull,
    InvalidPrompt,
    ModelFileError,
    NumericFault,
    OutOfMemory,
    OutOfTime,
)
from engine.events import Text
from handler.event import Reply
from tests.handler.scripted import (
    KEY,
    LambdaContext,
    ScriptedEngine,
    app_loading,
    app_with,
    chat,
    finished,
    post,
    prefilled,
    said,
    sse_chunks,
    url_event,
)

SECRET = "the user's own words"


def get(path: str, **event: Any) -> tuple[int, Any]:
    return post(app_with(ScriptedEngine()), None, path=path, method="GET", **event)


def test_a_chat_is_answered_with_the_engines_text() -> None:
    engine = ScriptedEngine()
    status, answer = post(app_with(engine), chat("Hi"))
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "Hello world")
    assert engine.requests[0].messages == ({"role": "user", "content": "Hi"},)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions", "/v1/chat/completions/"])
def test_the_chat_route_needs_no_v1_and_takes_a_trailing_slash(path: str) -> None:
    assert post(app_with(ScriptedEngine()), chat(), path=path)[0] == 200


def test_a82_a_stream_in_a_buffered_invocation_is_the_whole_sse_text() -> None:
    result = app_with(ScriptedEngine()).handle(url_event(chat(stream=True)), LambdaContext())
    assert result["headers"]["content-type"].startswith("text/event-stream")
    chunks = sse_chunks(result["body"])
    assert [chunk["choices"][0]["delta"].get("content") for chunk in chunks[:-1]] == ["", "Hello world", None]


def test_models_lists_the_one_model_and_its_card() -> None:
    status, listed = get("/v1/models")
    assert (status, [card["id"] for card in listed["data"]]) == (200, ["qwen3.5-scripted"])
    assert get("/v1/models/qwen3.5-scripted")[1]["context_length"] == 4096
    assert get("/v1/models/gpt-4")[1]["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("configured", "asked", "status"),
    [
        ("", "qwen3.5-0.8b", 200),
        ("", "QWARM", 200),
        ("", "gpt-4", 404),
        ("", None, 200),
        ("mine, other", "other", 200),
        ("mine, other", "qwen3.5-0.8b", 404),
    ],
)
def test_a_model_name_is_taken_if_it_means_the_model_served(configured: str, asked: str | None, status: int) -> None:
    app = app_with(ScriptedEngine(), QWARM_MODEL_NAME=configured)
    got, answer = post(app, chat() | {"model": asked})
    assert got == status
    assert answer.get("model", "mine") == (configured.split(",")[0] or "qwen3.5-scripted") or status == 404


def test_health_needs_no_key_and_no_model() -> None:
    def never() -> Any:
        raise AssertionError("the model was touched")

    app = app_loading(never)
    result = app.handle(url_event(path="/health", method="GET", headers={"authorization": ""}), LambdaContext())
    assert (result["statusCode"], json.loads(result["body"])) == (200, {"status": "loading"})


@pytest.mark.parametrize(
    "path", ["/v1/responses", "/v1/embeddings", "/v1/chat", "/favicon.ico", "/v1/chat/completions/x"]
)
def test_an_unknown_path_is_told_what_exists(path: str) -> None:
    status, answer = post(app_with(ScriptedEngine()), {}, path=path)
    assert (status, answer["error"]["code"]) == (404, "unknown_url")
    assert path in answer["error"]["message"] and "/v1/chat/completions" in answer["error"]["message"]


def test_a_wrong_method_is_told_the_right_one() -> None:
    result = app_with(ScriptedEngine()).handle(url_event(method="GET"), LambdaContext())
    assert (result["statusCode"], result["headers"]["allow"]) == (405, "POST")


def test_a_preflight_that_gets_this_far_is_answered_without_a_key() -> None:
    event = url_event(method="OPTIONS", headers={"authorization": ""})
    result = app_with(ScriptedEngine()).handle(event, LambdaContext())
    assert (result["statusCode"], result["body"]) == (204, "")
    assert not [name for name in result["headers"] if name.startswith("access-control")]


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer wrong", "Basic sk-test", f"Bearer {KEY}x", "Bearer ключ"]
)
def test_a_request_without_the_key_is_turned_away(authorization: str) -> None:
    status, answer = post(app_with(ScriptedEngine()), chat(), headers={"authorization": authorization})
    assert (status, answer["error"]["code"]) == (401, "invalid_api_key")


def test_any_of_several_keys_opens_also_as_x_api_key() -> None:
    app = app_with(ScriptedEngine(), QWARM_API_KEY="one, two")
    assert post(app, chat(), headers={"authorization": "bearer two"})[0] == 200
    assert post(app, chat(), headers={"authorization": "AWS4-HMAC-SHA256 x", "x-api-key": "one"})[0] == 200


def test_no_key_is_asked_for_where_the_setting_says_so() -> None:
    app = app_with(ScriptedEngine(), QWARM_AUTH="none")
    assert post(app, chat(), headers={"authorization": ""})[0] == 200


def test_an_error_always_has_message_type_param_and_code() -> None:
    _, answer = post(app_with(ScriptedEngine()), chat(n=2))
    assert answer == {
        "error": {
            "message": "'n' should be 1, not 2: this function gives one choice.",
            "type": "invalid_request_error",
            "param": "n",
            "code": "unsupported_value",
        }
    }


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (InvalidPrompt("no user message", "messages"), 400, "invalid_value"),
        (ContextFull(5000, 4096), 400, "context_length_exceeded"),
        (NumericFault("the logits are not numbers"), 500, "numeric_fault"),
        (OutOfMemory("2 GB needed, 1 GB available"), 500, "out_of_memory"),
        (OutOfTime("time ran out"), 504, "deadline_exceeded"),
        (Busy("another request is answered"), 503, "busy"),
        (KeyError(SECRET), 500, "internal_error"),
    ],
)
def test_a_failure_of_the_engine_has_its_status_and_code(failure: Exception, status: int, code: str) -> None:
    engine = ScriptedEngine([failure], said("fine"))
    app = app_with(engine)
    got, answer = post(app, chat())
    assert (got, answer["error"]["code"]) == (status, code)
    assert SECRET not in json.dumps(answer)
    assert post(app, chat())[0] == 200


def test_a53_a_prompt_over_the_context_gets_openais_own_sentence_with_both_numbers() -> None:
    _, answer = post(app_with(ScriptedEngine([ContextFull(5000, 4096)])), chat())
    assert answer["error"]["message"].startswith(
        "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens."
    )


def test_errors_that_a_retry_cannot_cure_say_so_and_others_say_when() -> None:
    def headers(failure: Exception) -> dict[str, str]:
        result = app_with(ScriptedEngine([failure])).handle(url_event(chat()), LambdaContext())
        found: dict[str, str] = result["headers"]
        return found

    assert headers(OutOfTime("late"))["x-should-retry"] == "false"
    assert headers(Busy("busy"))["retry-after"] == "1"


@pytest.mark.parametrize("content_type", ["", "application/x-www-form-urlencoded", "application/json; charset=utf-8"])
def test_a75_a_base64_body_is_decoded_whatever_its_content_type(content_type: str) -> None:
    event = url_event(base64.b64encode(json.dumps(chat()).encode()).decode(), headers={"content-type": content_type})
    event["isBase64Encoded"] = True
    assert app_with(ScriptedEngine()).handle(event, LambdaContext())["statusCode"] == 200


@pytest.mark.parametrize(
    "change",
    [
        {"isBase64Encoded": True, "body": "!!!"},
        {"isBase64Encoded": True, "body": base64.b64encode(b'{"messages": "\xff\xfe"}').decode()},
        {"body": None},
        {"body": ""},
        {"body": base64.b64encode(b"{}").decode()},
    ],
)
def test_a75_a_body_that_cannot_be_read_is_a_bad_request(change: dict[str, Any]) -> None:
    result = app_with(ScriptedEngine()).handle(url_event(chat()) | change, LambdaContext())
    assert result["statusCode"] == 400


def test_a_compressed_body_is_refused_and_one_over_the_limit_too() -> None:
    assert post(app_with(ScriptedEngine()), chat(), headers={"content-encoding": "gzip"})[0] == 415
    assert post(app_with(ScriptedEngine()), chat("x" * 7_000_000))[0] == 413


def test_a83_an_answer_over_what_lambda_carries_is_an_error_and_not_a_crash() -> None:
    engine = ScriptedEngine([prefilled(), Text('"' * 2_000_000), finished()])
    status, answer = post(app_with(engine), chat())
    assert (status, answer["error"]["code"]) == (500, "response_too_large")


def test_a79_without_time_the_answer_is_an_error_and_the_engine_is_left_alone() -> None:
    engine = ScriptedEngine()
    result = app_with(engine).handle(url_event(chat()), LambdaContext(remaining=1))
    assert (result["statusCode"], engine.requests) == (504, [])


def test_a79_the_engine_is_told_the_time_left_before_the_margin() -> None:
    engine = ScriptedEngine()
    app_with(engine, QWARM_DEADLINE_MARGIN_MS=1000).handle(url_event(chat()), LambdaContext(remaining=3000))
    assert engine.remaining_ms() == 2000


@pytest.mark.parametrize(
    ("read_timeout", "left"), [("5", 5000), ("600", 58_000), ("x", 58_000), ("nan", 58_000), ("-1", 58_000)]
)
def test_a_client_waits_only_as_long_as_it_says(read_timeout: str, left: int) -> None:
    engine = ScriptedEngine()
    post(app_with(engine), chat(), headers={"x-stainless-read-timeout": read_timeout})
    assert left - 2000 < engine.remaining_ms() <= left


def test_a_client_that_reads_a_stream_waits_as_long_as_the_function_runs() -> None:
    engine = ScriptedEngine()
    app = app_with(engine, QWARM_INVOKE_MODE="RESPONSE_STREAM")
    left = []
    for stream in (True, False):
        headers = {"x-stainless-read-timeout": "5"}
        app.handle(url_event(chat(stream=stream), headers=headers), LambdaContext()).close()
        left.append(engine.remaining_ms() > 5000)
    assert left == [True, False]


def test_a_stream_begins_before_the_first_event_if_that_is_long_in_coming(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handler.stream.HEARTBEAT_S", 0.02)
    engine = ScriptedEngine([lambda: time.sleep(0.1), ContextFull(5000, 4096)])
    reply = app_with(engine, QWARM_INVOKE_MODE="RESPONSE_STREAM").handle(url_event(chat(stream=True)), LambdaContext())
    received: list[bytes] = []
    with pytest.raises(ContextFull):
        received.extend(reply.pieces())
    assert (reply.status, received[1]) == (200, b": waiting\n\n")
    assert sse_chunks(received[-1].decode())[0]["error"]["code"] == "context_length_exceeded"


def test_a72_a_second_caller_waits_for_the_first_and_is_answered() -> None:
    begun, go_on = threading.Event(), threading.Event()
    engine = ScriptedEngine([begun.set, lambda: go_on.wait(5), *said("first")], said("second"))
    app = app_with(engine)
    answers: list[str] = []

    def ask() -> None:
        answers.append(post(app, chat())[1]["choices"][0]["message"]["content"])

    threads = [threading.Thread(target=ask) for _ in range(2)]
    threads[0].start()
    assert begun.wait(5)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(5)
    assert answers == ["first", "second"]


def test_a72_a_second_caller_whose_time_runs_out_is_told_to_come_back() -> None:
    app = app_with(ScriptedEngine(), QWARM_INVOKE_MODE="RESPONSE_STREAM", QWARM_DEADLINE_MARGIN_MS=0)
    held = app.handle(url_event(chat(stream=True)), LambdaContext())
    late = app.handle(url_event(chat()), LambdaContext(remaining=50))
    assert (late.status, late.headers["retry-after"]) == (503, "1")
    held.close()
    assert app.handle(url_event(chat()), LambdaContext()).status == 200


def test_a50_a_streams_bad_request_is_a_plain_error() -> None:
    app = app_with(ScriptedEngine([ContextFull(5000, 4096)]), QWARM_INVOKE_MODE="RESPONSE_STREAM")
    for body in (chat(stream=True, n=0), chat(stream=True)):
        reply = app.handle(url_event(body), LambdaContext())
        assert (reply.status, reply.chunks, reply.headers["content-type"]) == (400, None, "application/json")


def test_a50_a_failure_in_mid_stream_is_one_error_event_and_the_end() -> None:
    engine = ScriptedEngine([prefilled(), Text("Hel"), NumericFault("the logits are not numbers")])
    reply: Reply = app_with(engine, QWARM_INVOKE_MODE="RESPONSE_STREAM").handle(
        url_event(chat(stream=True)), LambdaContext()
    )
    received: list[bytes] = []
    with pytest.raises(NumericFault):
        received.extend(reply.pieces())
    chunks = sse_chunks(b"".join(received).decode())
    assert chunks[-1]["error"]["code"] == "numeric_fault"
    assert [chunk["object"] for chunk in chunks[:-1]] == ["chat.completion.chunk"] * 2
    reply.close()
    assert engine.ended == 1


def test_a50_a_failure_in_a_buffered_stream_is_an_error_status() -> None:
    engine = ScriptedEngine([prefilled(), Text("Hel"), NumericFault("the logits are not numbers")])
    assert post(app_with(engine), chat(stream=True))[0] == 500


def test_a81_closing_a_reply_ends_the_engines_work_even_if_nothing_was_read() -> None:
    for n_read in (0, 2):
        engine = ScriptedEngine([prefilled(), Text("a"), Text("b"), Text("c"), finished()])
        app = app_with(engine, QWARM_INVOKE_MODE="RESPONSE_STREAM")
        reply = app.handle(url_event(chat(stream=True)), LambdaContext())
        pieces = reply.pieces()
        for _ in range(n_read):
            next(pieces)
        reply.close()
        reply.close()
        assert engine.ended == 1
        assert app.handle(url_event(chat()), LambdaContext()).status == 200


def test_a_direct_invocation_gets_the_object_itself() -> None:
    app = app_with(ScriptedEngine())
    assert app.handle(chat(), LambdaContext())["object"] == "chat.completion"
    assert app.handle(chat(n=2), LambdaContext())["error"]["param"] == "n"
    assert app.handle(chat(stream=True), LambdaContext())["error"]["param"] == "stream"
    assert app.handle(["?"], LambdaContext())["error"]["code"] == "invalid_event"


@pytest.mark.parametrize("event", [{"warmup": True}, {"source": "aws.events", "detail-type": "Scheduled Event"}])
def test_a_warmup_is_cheap(event: dict[str, Any]) -> None:
    engine = ScriptedEngine()
    assert app_with(engine).handle(event, LambdaContext()) == {"warm": True, "model": "loading"}
    assert engine.requests == []


def test_the_first_request_after_a_warmup_is_not_a_cold_start(
    records: Callable[[str], list[dict[str, Any]]],
) -> None:
    app = app_with(ScriptedEngine())
    app.handle({"warmup": True}, LambdaContext())
    post(app, chat())
    assert records("prefill")[0]["cold_start"] is False


def test_a76_a_slow_load_is_begun_once_and_its_wait_ends_with_the_deadline() -> None:
    loads: list[int] = []
    done = threading.Event()

    def slow() -> ScriptedEngine:
        loads.append(1)
        done.wait(5)
        return ScriptedEngine()

    app = app_loading(slow, QWARM_DEADLINE_MARGIN_MS=0)
    for _ in range(2):
        result = app.handle(url_event(chat()), LambdaContext(remaining=30))
        assert (result["statusCode"], json.loads(result["body"])["error"]["code"]) == (503, "model_loading")
        assert int(result["headers"]["retry-after"]) > 0
    done.set()
    assert post(app, chat())[0] == 200
    assert len(loads) == 1


def test_a74_a_model_that_does_not_fit_is_an_error_for_each_request_and_the_reason_is_logged(
    records: Callable[[str], list[dict[str, Any]]],
) -> None:
    def too_big() -> ScriptedEngine:
        raise OutOfMemory("9000 MB needed, 512 MB available")

    assert post(app_loading(too_big), chat())[0] == 500
    assert records("load_failed")[0]["reason"] == "9000 MB needed, 512 MB available"


def test_a_broken_model_file_is_named_in_the_log_only(records: Callable[[str], list[dict[str, Any]]]) -> None:
    def broken() -> ScriptedEngine:
        raise ModelFileError("/models/a.gguf is cut off")

    app = app_loading(broken)
    status, answer = post(app, chat())
    assert (status, answer["error"]["code"]) == (500, "model_unavailable")
    assert "/models" not in json.dumps(answer)
    assert "/models/a.gguf" in records("load_failed")[0]["reason"]
    assert app.loader.state == "failed"


def test_a_request_is_logged_as_prefill_and_completion_and_as_metrics(
    records: Callable[[str], list[dict[str, Any]]],
) -> None:
    app = app_with(ScriptedEngine())
    for _ in range(2):
        post(app, chat(guided_regex="x"), headers={"x-stainless-retry-count": "1"})
    first, second = records("prefill")
    assert (first["prefill_path"], first["prompt_tokens"], first["prefilled"], first["cached_tokens"]) == (
        "full",
        46,
        46,
        0,
    )
    assert (first["prefill_ms"], first["prefill_tok_s"], first["kernel"]) == (
        20.0,
        2300.0,
        "scripted/per_token",
    )
    assert (first["cold_start"], second["cold_start"], "init_ms" in first, "init_ms" in second) == (
        True,
        False,
        True,
        False,
    )
    assert (first["unknown_fields"], first["request_id"]) == (
        ["guided_regex"],
        LambdaContext().aws_request_id,
    )
    done = records("completion")[0]
    assert (done["completion_tokens"], done["decode_tok_s"], done["finish_reason"], done["stop"]) == (
        2,
        200.0,
        "stop",
        "eos",
    )
    assert (done["retry_count"], done["remaining_ms"]) == (1, 60_000)
    metrics = records("metrics")[0]
    listed = metrics["_aws"]["CloudWatchMetrics"][0]
    assert all(metrics[metric["Name"]] is not None for metric in listed["Metrics"])
    assert {"prefill_ms", "cached_tokens", "decode_tok_s"} <= {metric["Name"] for metric in listed["Metrics"]}


def test_metrics_can_be_switched_off(records: Callable[[str], list[dict[str, Any]]]) -> None:
    post(app_with(ScriptedEngine(), QWARM_METRICS="off"), chat())
    assert len(records("completion")) == 1
    assert records("metrics") == []


BAD_BODIES: list[Any] = [
    "{",
    chat(n=0),
    chat(temperature=SECRET),
    chat(logit_bias={SECRET: 1}),
    chat([{"type": "image_url", "image_url": SECRET}]),
    {"messages": [{"role": SECRET, "content": SECRET}]},
    chat(tools=[{"type": "function", "function": {"name": SECRET}}]),
    chat(response_format={"type": "json_schema"}),
    chat(model=SECRET) | {"model": SECRET},
]


def test_a91_refusals_leave_one_line_without_the_users_text_and_the_next_request_works(
    records: Callable[[str], list[dict[str, Any]]], caplog: pytest.LogCaptureFixture
) -> None:
    engine = ScriptedEngine([InvalidPrompt(SECRET, "messages")], said("fine"))
    app = app_with(engine)
    assert post(app, chat())[0] == 400
    for _ in range(20):
        for body in BAD_BODIES:
            assert 400 <= post(app, body)[0] < 500
    assert post(app, chat())[0] == 200
    assert len(records("refused")) == 20 * len(BAD_BODIES) + 1
    assert set().union(*records("refused")) == {
        "request_id", "cold_start", "init_ms", "remaining_ms", "status", "code", "param",
    }  # fmt: skip
    logged = json.dumps([vars(record) for record in caplog.records], default=str)
    assert SECRET not in logged and json.dumps(SECRET)[1:-1] not in logged


def test_a_bug_is_logged_by_its_type_and_place_without_what_it_says(
    records: Callable[[str], list[dict[str, Any]]],
) -> None:
    post(app_with(ScriptedEngine([KeyError(SECRET)])), chat())
    (failed,) = records("failed")
    assert (failed["error"], failed["code"]) == ("KeyError", "internal_error")
    assert failed["frames"][-1].endswith(" _play")
    assert SECRET not in json.dumps(failed)


def test_every_http_answer_carries_the_request_id() -> None:
    app = app_with(ScriptedEngine())
    for event in (url_event(chat()), url_event(chat(n=2)), url_event(path="/health", method="GET")):
        assert app.handle(event, LambdaContext())["headers"]["x-request-id"] == LambdaContext().aws_request_id
