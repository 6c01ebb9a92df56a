"""The function under AWS's runtime interface emulator, which `make run` takes out of the SAM CLI's wheel."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import run_events

ROOT = Path(__file__).parents[2]
EMULATOR = ROOT / "build" / "rie" / "aws-lambda-rie"
MODEL = ROOT / "models" / "qwarm-demo.gguf"

pytestmark = pytest.mark.skipif(not EMULATOR.exists(), reason="`make run` gets the emulator")


class Environment(run_events.Environment):
    """One that keeps its log and shows its processes."""

    def __init__(self, **settings: str) -> None:
        super().__init__(EMULATOR, MODEL, **settings)
        self._log: list[str] = []

    def ask(self, name: str, **changed: Any) -> tuple[int, Any]:
        """Status and body of the emulator's answer to a recorded event, some of whose request is changed."""
        event = json.loads((ROOT / "events" / f"{name}.json").read_text())
        event["body"] = json.dumps({**json.loads(event["body"]), **changed})
        try:
            return 200, self.invoke(json.dumps(event).encode())
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
            self._log += self.new_lines()
            lines = [json.loads(line) for line in self._log if line.startswith("{")]
            found = [line for line in lines if line.get("message") == message]
            if len(found) >= count:
                return found
            assert time.monotonic() < give_up_s, self._log


@contextmanager
def environment(**settings: str) -> Iterator[Environment]:
    running = Environment(**settings)
    try:
        yield running
    finally:
        running.close()


def test_the_second_request_finds_the_first_ones_state() -> None:
    with environment() as function:
        for _ in range(2):
            assert function.ask("chat_tools")[1]["statusCode"] == 200
        first, second = function.records("prefill", 2)
    assert (first["cold_start"], second["cold_start"]) == (True, False)
    assert second["prefilled"] < first["prefilled"]


def test_a_killed_runtime_costs_one_answer_and_the_next_starts_anew() -> None:
    with environment() as function:
        assert function.ask("chat_plain")[1]["statusCode"] == 200
        os.kill(function.runtime_pid(), signal.SIGKILL)
        time.sleep(0.5)
        statuses = [function.ask("chat_plain") for _ in range(2)]
        assert statuses[-1][1]["statusCode"] == 200
        assert [record["cold_start"] for record in function.records("prefill", 2)][-1] is True


def test_a_wrong_setting_is_reported_as_an_init_error() -> None:
    with environment(QWARM_API_KEY="") as function:
        status, body = function.ask("chat_plain")
    assert status >= 500
    assert body["errorMessage"].startswith("QWARM_API_KEY is not set")


@pytest.mark.parametrize(
    ("given", "least_s", "most_s"), [({}, 240, 300), ({"AWS_LAMBDA_FUNCTION_TIMEOUT": "900"}, 840, 900)]
)
def test_a89_the_time_for_an_answer_is_what_the_emulator_gives(
    given: dict[str, str], least_s: int, most_s: int
) -> None:
    with environment(**given) as function:
        assert function.ask("chat_plain")[1]["statusCode"] == 200
        (prefill,) = function.records("prefill")
    assert least_s < prefill["remaining_ms"] / 1000 <= most_s
    assert "AWS_LAMBDA_FUNCTION_TIMEOUT" in (ROOT / "docs" / "deploy.md").read_text()


def test_a89_a_timeout_ends_the_answer_and_not_the_environment() -> None:
    with environment(AWS_LAMBDA_FUNCTION_TIMEOUT="3", QWARM_DEADLINE_MARGIN_MS="2900") as function:
        answers = [function.ask("chat_plain", max_tokens=4000)[1] for _ in range(2)]
        pid = function.runtime_pid()
        assert all(answer["statusCode"] in (200, 503, 504) for answer in answers)
        assert function.runtime_pid() == pid
        assert len(function.records("init")) == 1
