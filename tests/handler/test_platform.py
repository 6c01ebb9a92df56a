"""What Lambda does to a process: freezes it, ends it, takes its disk away.  Here with the real engine and runtime.

QWARM_TEST_FROZEN_S is how long a freeze lasts, 2 s if it is not set; `make soak` waits a minute.
"""

from __future__ import annotations

import gc
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

from engine.engine import Engine
from engine.events import Text
from engine.model_file import ModelFile
from engine.request import ChatRequest, Sampling
from engine.tokenizer import Tokenizer
from tests.emulator import PRELUDE_END, Invocation, Lambda
from tests.handler.scripted import KEY, chat, sse_chunks, url_event

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests" / "fixtures" / "oracle" / "q.q8_0.gguf"
COMMAND = [sys.executable, "-m", "handler"]
FROZEN_S = float(os.environ.get("QWARM_TEST_FROZEN_S", "2"))


def environ(model: Path, folder: Path, **other: str) -> dict[str, str]:
    return {
        "QWARM_API_KEY": KEY,
        "QWARM_MODEL": str(model),
        "QWARM_INVOKE_MODE": "RESPONSE_STREAM",
        "QWARM_SNAPSHOT_DIR": str(folder / "snapshots"),
        "QWARM_CONTEXT": "2048",
        "QWARM_DEADLINE_MARGIN_MS": "100",
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


def begun(function: Lambda, timeout_ms: int = 600_000) -> Invocation:
    """A long answer in pieces whose first words have come."""
    with ModelFile(MODEL) as file:
        never = {str(id_): -100 for id_ in Tokenizer(file).stop_ids}
    asked = chat("Tell me a story", temperature=0, max_tokens=1500, logit_bias=never, stream=True)
    answer = function.invoke(url_event(asked), timeout_ms)
    while not (answer.pieces.get(timeout=30) or b"").startswith(b"data: "):
        pass  # of the prelude
    return answer


def words(answer: Invocation) -> tuple[str, str]:
    """What the rest of an answer in pieces says, and why it ended."""
    *pieces, done = sse_chunks(answer.body().decode())
    assert done == "[DONE]"
    chunks = [chunk["choices"][0] for chunk in pieces]
    deltas = [chunk["delta"] for chunk in chunks]
    said = "".join(delta.get("reasoning_content") or delta.get("content") or "" for delta in deltas)
    return said, chunks[-1]["finish_reason"]


def cpu_s(function: Lambda) -> float:
    """Processor time the function has used, all threads."""
    ticks = Path(f"/proc/{function.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def freeze(function: Lambda, seconds: float) -> None:
    function.process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    function.process.send_signal(signal.SIGCONT)


def test_a77_a_function_frozen_between_requests_answers_as_before(function: Lambda) -> None:
    first = said(ask(function))
    freeze(function, FROZEN_S)
    used_s = cpu_s(function)
    time.sleep(0.5)
    assert cpu_s(function) - used_s < 0.1  # nothing spins while it waits for an event
    assert said(ask(function)) == first


def test_a77_a_function_frozen_in_the_middle_of_an_answer_says_the_same(function: Lambda) -> None:
    first = words(begun(function))
    again = begun(function)
    freeze(function, FROZEN_S)
    assert words(again) == first and len(first[0]) > 1000


def test_a77_time_spent_frozen_counts_as_lambda_counts_it(function: Lambda) -> None:
    before, (whole, _) = said(ask(function)), words(begun(function))
    answer = begun(function, timeout_ms=1500)
    freeze(function, max(FROZEN_S, 1.5))
    thawed_s = time.monotonic()
    part, reason = words(answer)
    assert reason == "length" and len(part) < len(whole)
    assert time.monotonic() - thawed_s < 2
    assert said(ask(function)) == before


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


def test_sigterm_in_the_middle_of_an_answer_ends_at_once_and_leaves_nothing_half_made(tmp_path: Path) -> None:
    with Lambda(COMMAND, ROOT, environ(MODEL, tmp_path)) as ended:
        begun(ended)
        ended.process.terminate()
        assert ended.process.wait(5) == 0
        assert "Traceback" not in ended.stderr()
    with Lambda(COMMAND, ROOT, environ(MODEL, tmp_path)) as running:
        assert ask(running)[0] == 200
    assert not list(tmp_path.rglob("*.partial"))


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


def test_a80_a_disk_that_takes_only_small_files_is_enough(tmp_path: Path) -> None:
    command = ["sh", "-c", 'ulimit -f 128 && exec "$@"', "sh", *COMMAND]  # blocks of 512 bytes
    with Lambda(command, ROOT, environ(MODEL, tmp_path)) as running:
        tools = [{"type": "function", "function": {"name": "f", "description": "Does it. " * 100}}]
        first = said(ask(running, tools=tools))
        assert said(ask(running, tools=tools)) == first
        assert "snapshot_store_failed" in running.stderr()
    assert not any((tmp_path / "snapshots").iterdir())


def test_a_model_replaced_under_its_name_is_not_noticed_and_not_mixed(tmp_path: Path) -> None:
    model = Path(shutil.copy(MODEL, tmp_path / "model.gguf"))
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
            assert (status, answer["error"]["code"]) == (503, "model_changed")
        assert "has changed" in running.stderr()


def test_a_model_file_cut_in_the_middle_of_an_answer_ends_the_process_which_says_where(tmp_path: Path) -> None:
    model = Path(shutil.copy(MODEL, tmp_path / "model.gguf"))
    with Lambda(COMMAND, ROOT, environ(model, tmp_path)) as running:
        begun(running)
        os.truncate(model, 4096)
        assert running.process.wait(30) == -signal.SIGBUS
        assert "Fatal Python error: Bus error" in running.stderr()
        assert "engine/evaluation.py" in running.stderr()


def test_a76_a_second_initialization_finds_no_half_made_state(tmp_path: Path) -> None:
    settings: Mapping[str, str] = environ(MODEL, tmp_path)
    with Lambda(COMMAND, ROOT, settings) as aborted:
        time.sleep(0.3)
        aborted.process.kill()
    with Lambda(COMMAND, ROOT, settings) as running:
        assert ask(running)[0] == 200


def test_a76_two_initializations_in_one_process_do_not_meet() -> None:
    first, second = (Engine.load(str(MODEL), context=512) for _ in range(2))
    messages = ({"role": "user", "content": "Hello"},)
    request = ChatRequest(messages, thinking=False, sampling=Sampling(temperature=0), max_tokens=12)

    def text(engine: Engine) -> str:
        return "".join(event.text for event in engine.chat(request, lambda: 60_000) if isinstance(event, Text))

    def n_threads() -> int:
        return sum(1 for _ in Path("/proc/self/task").iterdir())

    alone = text(first)
    answers = [engine.chat(request, lambda: 60_000) for engine in (first, second)]
    events = list(zip(*answers, strict=True))  # in turn
    for number in (0, 1):
        assert alone == "".join(pair[number].text for pair in events if isinstance(pair[number], Text))
    n_before = n_threads()
    del first, answers
    gc.collect()
    assert n_threads() < n_before
    assert text(second) == alone


HEAPS = """
import ctypes, threading
from handler.heap import set_up_heap

if {shared}:
    set_up_heap()
met = threading.Barrier(4)
def allocate():
    met.wait()
    held = [bytearray(5000) for _ in range(100)]
    met.wait()
threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
"""


@pytest.mark.parametrize("shared", [True, False])
def test_all_threads_set_up_heap_once_that_is_asked_for(shared: bool) -> None:
    code, environ = HEAPS.format(shared=shared), {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # as in the image
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environ, check=True, stdout=subprocess.PIPE)
    assert (told.stdout.count(b"<heap nr=") == 1) is shared
