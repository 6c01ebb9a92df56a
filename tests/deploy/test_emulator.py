"""The function under AWS's runtime interface emulator, which `make run` takes out of the SAM CLI's wheel."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EMULATOR = ROOT / "build" / "rie" / "aws-lambda-rie"
MODEL = ROOT / "models" / "qwarm-demo.gguf"
SETTINGS = {"QWARM_API_KEY": "sk-test", "QWARM_MODEL": str(MODEL), "QWARM_SNAPSHOT_DIR": "off"}

pytestmark = pytest.mark.skipif(not EMULATOR.exists(), reason="`make run` gets the emulator")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Environment:
    """One execution environment."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self._url = f"http://127.0.0.1:{port}/2015-03-31/functions/function/invocations"
        self._log = log

    def invoke(self, name: str, **changed: Any) -> tuple[int, Any]:
        """Status and body of the emulator's answer to a recorded event, some of whose request is changed."""
        event = json.loads((ROOT / "events" / f"{name}.json").read_text())
        event["body"] = json.dumps({**json.loads(event["body"]), **changed})
        try:
            with urllib.request.urlopen(self._url, data=json.dumps(event).encode(), timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def runtime_pid(self) -> int:
        lists = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        pids = [int(pid) for children in lists for pid in children.read_text().split()]
        (pid,) = pids
        return pid

    def records(self, message: str, count: int = 1) -> list[dict[str, Any]]:
        """That many records of one kind, which may be written just after the answer."""
        give_up_s = time.monotonic() + 20
        while True:
            lines = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
            found = [line for line in lines if line.get("message") == message]
            if len(found) >= count:
                return found
            assert time.monotonic() < give_up_s, self._log.read_text()
            time.sleep(0.05)


@contextmanager
def environment(folder: Path, **settings: str) -> Iterator[Environment]:
    front, runtime, log = free_port(), free_port(), folder / "log"
    addresses = ["--runtime-interface-emulator-address", f"127.0.0.1:{front}"]
    addresses += ["--runtime-api-address", f"127.0.0.1:{runtime}"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_LAMBDA")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [EMULATOR, *addresses, sys.executable, "-m", "handler"],
            cwd=ROOT,
            env={**inherited, **SETTINGS, **settings},
            stdout=output,
            stderr=output,
        )
    try:
        give_up_s = time.monotonic() + 30
        while socket.socket().connect_ex(("127.0.0.1", front)):
            assert process.poll() is None and time.monotonic() < give_up_s
            time.sleep(0.05)
        yield Environment(process, front, log)
    finally:
        process.terminate()
        process.wait(20)


def test_the_second_request_finds_the_first_ones_state(tmp_path: Path) -> None:
    with environment(tmp_path) as function:
        for _ in range(2):
            assert function.invoke("chat_tools")[1]["statusCode"] == 200
        first, second = function.records("prefill", 2)
    assert (first["cold_start"], second["cold_start"]) == (True, False)
    assert second["prefilled"] < first["prefilled"]


def test_a_killed_runtime_costs_one_answer_and_the_next_starts_anew(tmp_path: Path) -> None:
    with environment(tmp_path) as function:
        assert function.invoke("chat_plain")[1]["statusCode"] == 200
        os.kill(function.runtime_pid(), signal.SIGKILL)
        time.sleep(0.5)
        statuses = [function.invoke("chat_plain") for _ in range(2)]
        assert statuses[-1][1]["statusCode"] == 200
        assert [record["cold_start"] for record in function.records("prefill", 2)][-1] is True


def test_a_wrong_setting_is_reported_as_an_init_error(tmp_path: Path) -> None:
    with environment(tmp_path, QWARM_API_KEY="") as function:
        status, body = function.invoke("chat_plain")
    assert status >= 500
    assert body["errorMessage"].startswith("QWARM_API_KEY is not set")


@pytest.mark.parametrize(
    ("given", "least_s", "most_s"), [({}, 240, 300), ({"AWS_LAMBDA_FUNCTION_TIMEOUT": "900"}, 840, 900)]
)
def test_a89_the_time_for_an_answer_is_what_the_emulator_gives(
    tmp_path: Path, given: dict[str, str], least_s: int, most_s: int
) -> None:
    with environment(tmp_path, **given) as function:
        assert function.invoke("chat_plain")[1]["statusCode"] == 200
        (prefill,) = function.records("prefill")
    assert least_s < prefill["remaining_ms"] / 1000 <= most_s
    assert "AWS_LAMBDA_FUNCTION_TIMEOUT" in (ROOT / "docs" / "deploy.md").read_text()


def test_a89_a_timeout_ends_the_answer_and_not_the_environment(tmp_path: Path) -> None:
    with environment(tmp_path, AWS_LAMBDA_FUNCTION_TIMEOUT="3", QWARM_DEADLINE_MARGIN_MS="2900") as function:
        answers = [function.invoke("chat_plain", max_tokens=4000)[1] for _ in range(2)]
        pid = function.runtime_pid()
        assert all(answer["statusCode"] in (200, 503, 504) for answer in answers)
        assert function.runtime_pid() == pid
        assert len(function.records("init")) == 1
