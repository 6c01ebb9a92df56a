"""The local server: the same handler over plain HTTP, with OpenAI's client before it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from engine.events import Text
from handler import local
from handler.settings import Settings
from tests.handler.scripted import KEY, ScriptedEngine, app_with, chat, finished, prefilled, said


def ask(client: openai.OpenAI, **fields: Any) -> Any:
    return client.chat.completions.create(model="qwarm", messages=[{"role": "user", "content": "Hi"}], **fields)


def _pause() -> None:
    time.sleep(0.05)


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def server(engine: ScriptedEngine) -> Iterator[local.LocalServer]:
    with local.LocalServer(("127.0.0.1", 0), app_with(engine, QWARM_INVOKE_MODE="RESPONSE_STREAM")) as running:
        threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture
def client(server: local.LocalServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key=KEY, max_retries=0, timeout=20)


def test_the_openai_client_chats_streams_and_is_refused(client: openai.OpenAI) -> None:
    answer = ask(client)
    assert answer.choices[0].message.content == "Hello world"
    chunks = list(ask(client, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello world"
    with pytest.raises(openai.BadRequestError, match="'n' should be 1"):
        ask(client, n=2)
    with pytest.raises(openai.AuthenticationError):
        ask(client.with_options(api_key="wrong"))
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="qwarm", input="x")


def test_requests_that_come_together_are_answered_one_after_the_other(
    client: openai.OpenAI, engine: ScriptedEngine
) -> None:
    running: list[int] = []
    most: list[int] = []

    def enter() -> None:
        running.append(1)
        most.append(len(running))
        time.sleep(0.02)
        running.pop()

    engine._scripts = [[prefilled(), enter, Text("x"), enter, finished(1)]]
    answers: list[str | None] = []

    threads = [
        threading.Thread(target=lambda: answers.append(ask(client).choices[0].message.content)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (answers, max(most)) == (["x"] * 4, 1)


def test_a81_a_client_that_hangs_up_ends_the_work_and_the_next_is_answered(
    client: openai.OpenAI, engine: ScriptedEngine
) -> None:
    endless = [prefilled(), *(step for _ in range(5000) for step in (Text("word " * 50), _pause))]
    engine._scripts = [endless, said("fine")]
    stream = ask(client, stream=True)
    next(iter(stream))
    stream.close()
    assert ask(client).choices[0].message.content == "fine"
    assert engine.ended == 2


def test_the_engine_is_given_time_after_each_answer(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    ask(client)
    list(ask(client, stream=True))
    give_up_s = time.monotonic() + 5
    while len(engine.idle_ms) < 2 and time.monotonic() < give_up_s:
        time.sleep(0.01)
    assert engine.idle_ms == [3000, 3000]


def test_a_body_over_the_limit_is_refused_unread(server: local.LocalServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    connection.putrequest("POST", "/v1/chat/completions")
    connection.putheader("Content-Length", str(10**9))
    connection.endheaders()
    response = connection.getresponse()
    assert (response.status, json.loads(response.read())["error"]["code"]) == (413, "request_too_large")


@pytest.mark.parametrize("method", ["TRACE", "HEAD", "PUT", "BREW"])
def test_a_method_that_is_not_served_is_told_so_by_the_handler(server: local.LocalServer, method: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    connection.request(method, "/v1/models", headers={"Authorization": f"Bearer {KEY}"})
    response = connection.getresponse()
    body = response.read()
    assert (response.status, response.getheader("allow")) == (405, "GET")
    assert body == b"" if method == "HEAD" else json.loads(body)["error"]["code"] == "method_not_allowed"
    assert response.getheader("x-request-id")
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200


def test_bytes_that_are_not_utf8_are_a_bad_request(server: local.LocalServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    body = json.dumps(chat("X")).encode().replace(b"X", b"\xff\xfe")
    connection.request("POST", "/v1/chat/completions", body, {"Authorization": f"Bearer {KEY}"})
    response = connection.getresponse()
    assert (response.status, json.loads(response.read())["error"]["code"]) == (400, "invalid_body")


@pytest.mark.parametrize(
    ("settings", "shown", "hidden"),
    [
        (
            {"QWARM_API_KEY": KEY, "QWARM_PAGE": True},
            ["Bearer sk-test", 'api_key="sk-test"', "http://x:1/\n"],
            "import os",
        ),
        ({"QWARM_API_KEY": "sk-own"}, ["Bearer $QWARM_API_KEY", "import os", 'os.environ["QWARM_API_KEY"]'], "sk-own"),
        ({"QWARM_AUTH": "none"}, ["Bearer none", "http://x:1/v1"], "browser"),
    ],
)
def test_the_greeting_can_be_pasted_and_shows_no_key_of_ones_own(
    settings: dict[str, Any], shown: list[str], hidden: str
) -> None:
    greeting = local._greeting(ScriptedEngine(), "http://x:1", Settings(**settings))
    assert [part for part in shown if part not in greeting] == []
    assert hidden not in greeting


def test_the_command_says_in_one_sentence_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QWARM_API_KEY", raising=False)
    assert local.main(["--model", "/nowhere.gguf"]) == 1
    assert "QWARM_API_KEY is not set" in capsys.readouterr().err
    assert local.main(["--model", "/nowhere.gguf", "--threads", "0", "--no-auth"]) == 1
    assert "QWARM_THREADS is '0': it should be greater than or equal to 1" in capsys.readouterr().err
