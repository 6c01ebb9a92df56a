"""What Lambda does to a process: freezes it, ends it, takes its disk away.  Here with the real engine and runtime."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.emulator import PRELUDE_END, Lambda
from tests.handler.scripted import KEY, chat, url_event

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests" / "fixtures" / "oracle" / "q.q8_0.gguf"
COMMAND = [sys.executable, "-m", "handler"]
FROZEN_S = 1.0


def environ(model: Path, folder: Path, **other: str) -> dict[str, str]:
    return {
        "QWARM_API_KEY": KEY,
        "QWARM_MODEL": str(model),
        "QWARM_INVOKE_MODE": "RESPONSE_STREAM",
        "QWARM_SNAPSHOT_DIR": str(folder / "snapshots"),
        "QWARM_CONTEXT": "2048",
        **other,
    }


@pytest.fixture
def function(tmp_path: Path) -> Iterator[Lambda]:
    with Lambda(COMMAND, ROOT, environ(MODEL, tmp_path)) as running:
        yield running


def ask(function: Lambda, text: str = "Hello", **fields: Any) -> tuple[int, Any]:
    """Status and body of an answer at temperature 0."""
    event = url_event(chat(text, temperature=0, max_tokens=16, **fields))
    prelude, _, body = function.invoke(event).body().partition(PRELUDE_END)
    return json.loads(prelude)["statusCode"], json.loads(body)


def said(answer: tuple[int, Any]) -> Any:
    assert answer[0] == 200, answer
    return answer[1]["choices"]


def freeze(function: Lambda, seconds: float) -> None:
    function.process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    function.process.send_signal(signal.SIGCONT)


def test_a77_a_function_frozen_between_requests_answers_as_before(function: Lambda) -> None:
    first = said(ask(function))
    freeze(function, FROZEN_S)
    assert said(ask(function)) == first


def test_a77_a_function_frozen_in_the_middle_of_its_work_finishes_it(function: Lambda) -> None:
    text = "Tell me more. " * 100
    first = said(ask(function, text))
    answers: list[Any] = []
    for other in range(3):  # prompts that are not cached, so that the pool is at work
        thread = threading.Thread(target=lambda n=other: answers.append(ask(function, f"{n} {text}")))
        thread.start()
        for _ in range(5):
            time.sleep(0.01)
            freeze(function, 0.1)
        thread.join(30)
    assert [status for status, _ in answers] == [200] * 3
    assert said(ask(function, text)) == first


def test_sigterm_ends_the_runtime_with_status_0_while_it_waits(function: Lambda) -> None:
    ask(function)
    function.process.terminate()
    assert function.process.wait(5) == 0
    assert "Traceback" not in function.stderr()


def test_a80_without_a_home_or_a_place_to_write_answers_are_given(tmp_path: Path) -> None:
    settings = environ(MODEL, tmp_path, QWARM_SNAPSHOT_DIR="/proc/nowhere")
    without = ["env", "-u", "HOME", "-u", "USER", "-u", "XDG_CACHE_HOME"]
    with Lambda([*without, *COMMAND], ROOT, settings) as running:
        assert [ask(running)[0] for _ in range(2)] == [200, 200]


def can_unshare() -> bool:
    return (
        subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0
        if shutil.which("unshare")
        else False
    )


@pytest.mark.skipif(not can_unshare(), reason="a mount namespace needs root and unshare")
@pytest.mark.parametrize("tmp_size", ["64k", "64m"])
def test_a80_a_read_only_root_a_full_tmp_and_no_dev_shm_are_enough(tmp_path: Path, tmp_size: str) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    script = (
        f"set -e; mount -t tmpfs -o size={tmp_size} none {place}; mount -t tmpfs -o ro none /dev/shm; "
        'mount -o remount,bind,ro / 2>/dev/null || mount -o remount,ro /; exec "$@"'
    )
    command = ["unshare", "-m", "sh", "-c", script, "sh", "env", "-u", "HOME", *COMMAND]
    with Lambda(command, ROOT, environ(MODEL, place, TMPDIR=str(place))) as running:
        tools = [{"type": "function", "function": {"name": "f", "description": "Does it. " * 100}}]
        first = said(ask(running, tools=tools))
        assert said(ask(running, tools=tools)) == first


def test_a_model_replaced_under_its_name_is_not_noticed_and_not_mixed(tmp_path: Path) -> None:
    model = shutil.copy(MODEL, tmp_path / "model.gguf")
    with Lambda(COMMAND, ROOT, environ(model, tmp_path)) as running:
        first = said(ask(running))
        other = shutil.copy(MODEL.with_name("q.q4_0.gguf"), tmp_path / "other.gguf")
        Path(other).replace(model)
        assert said(ask(running, "Something else")) and said(ask(running)) == first


@pytest.mark.parametrize("damage", ["truncated", "overwritten"])
def test_a_model_file_changed_in_place_ends_in_an_error_and_not_in_other_answers(tmp_path: Path, damage: str) -> None:
    model = Path(shutil.copy(MODEL, tmp_path / "model.gguf"))
    with Lambda(COMMAND, ROOT, environ(model, tmp_path)) as running:
        ask(running)
        if damage == "truncated":
            os.truncate(model, 4096)
        else:
            with model.open("r+b") as file:
                file.seek(-4096, os.SEEK_END)
                file.write(bytes(4096))
        for _ in range(2):
            status, answer = ask(running)
            assert (status, answer["error"]["code"]) == (500, "model_unavailable")
        assert "has changed" in running.stderr()


def test_a76_a_second_initialization_finds_no_half_made_state(tmp_path: Path) -> None:
    settings: Mapping[str, str] = environ(MODEL, tmp_path)
    with Lambda(COMMAND, ROOT, settings) as aborted:
        time.sleep(0.3)
        aborted.process.kill()
    with Lambda(COMMAND, ROOT, settings) as running:
        assert ask(running)[0] == 200
