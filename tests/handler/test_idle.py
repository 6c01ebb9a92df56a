"""Between an answer and the next event: base snapshots are written, and nothing that goes wrong there matters."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelFileError
from handler.app import App, load_engine
from handler.settings import Settings
from make_synth import SHAPES, write_model
from tests.handler.scripted import KEY, LambdaContext, ScriptedEngine, app_loading, app_with, chat, post, url_event


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path, replace(SHAPES["tinyg"], n_vocab=8192), "q4_k_m", seed=5)
    return str(path)


def real_app(model: str, folder: Path, **settings: Any) -> App:
    given = {"QWARM_API_KEY": KEY, "QWARM_MODEL": model, "QWARM_CONTEXT": 512, "QWARM_SNAPSHOT_DIR": str(folder)}
    read = Settings(**{**given, **settings})
    return App(read, lambda: load_engine(read))


def body(text: str, **fields: Any) -> dict[str, Any]:
    system = {"role": "system", "content": "Answer in one short sentence."}
    messages = [system, {"role": "user", "content": text}]
    return {"model": "qwarm", "messages": messages, "max_tokens": 3, "temperature": 0, **fields}


def test_a_snapshot_is_written_after_the_answer_left_and_serves_another_environment(
    model: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "qwarm")
    first = real_app(model, tmp_path)
    status, _ = post(first, body("One?"))
    assert status == 200
    assert list(tmp_path.iterdir()) == []
    first.idle()
    assert len(list(tmp_path.iterdir())) == 1
    status, answer = post(real_app(model, tmp_path), body("Two?"))
    said = {record.getMessage(): record.fields for record in caplog.records if hasattr(record, "fields")}
    assert said["snapshot_written"]["place"] == said["snapshot_read"]["place"] == "snapshot_tmp"
    assert said["prefill"]["prefill_path"] == "snapshot_tmp"
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == said["snapshot_read"]["position"] > 0


def test_a_streamed_answer_leaves_before_its_snapshot_is_written(model: str, tmp_path: Path) -> None:
    app = real_app(model, tmp_path, QWARM_INVOKE_MODE="RESPONSE_STREAM")
    reply = app.handle(url_event(body("One?", stream=True)), LambdaContext())
    app.idle()  # too early: the answer is still being made
    assert list(tmp_path.iterdir()) == []
    assert b"".join(reply.chunks).endswith(b"data: [DONE]\n\n")
    reply.close()
    app.idle()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_damaged_snapshot_is_one_warning(model: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = real_app(model, tmp_path)
    post(first, body("One?"))
    first.idle()
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    second = real_app(model, tmp_path)
    assert [post(second, body(text))[0] for text in ("Two?", "Three?")] == [200, 200]
    (warning,) = [record for record in caplog.records if record.getMessage() == "snapshot_ignored"]
    assert warning.levelname == "WARNING"
    assert json.dumps(warning.fields)  # type: ignore[attr-defined]


def test_nothing_is_written_without_time_for_it(model: str, tmp_path: Path) -> None:
    app = real_app(model, tmp_path, QWARM_SNAPSHOT_WRITE_MS=0)
    post(app, body("One?"))
    app.idle()
    assert list(tmp_path.iterdir()) == []


def test_idle_time_is_within_the_setting_and_before_lambdas_timeout() -> None:
    engine = ScriptedEngine()
    app = app_with(engine)
    app.idle()  # before the first event
    for remaining in (60_000, 3_500, 1_000):
        app.handle(url_event(chat("Hi")), LambdaContext(remaining=remaining))
        app.idle()
    assert engine.idle_ms == [3000, 1500]


def test_a_failure_in_idle_time_is_logged_and_goes_no_further(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ScriptedEngine):
        def idle(self, within_ms: float) -> None:
            raise KeyError("a secret")

    app = app_with(Broken())
    post(app, chat("Hi"))
    app.idle()
    (record,) = [record for record in caplog.records if record.getMessage() == "idle_failed"]
    assert "a secret" not in json.dumps(record.fields)  # type: ignore[attr-defined]


def test_without_a_model_there_is_nothing_to_do() -> None:
    def fail() -> ScriptedEngine:
        raise ModelFileError("no such file")

    app = app_loading(fail)
    assert post(app, chat("Hi"))[0] >= 500
    app.idle()
