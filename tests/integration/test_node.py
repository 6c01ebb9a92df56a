"""The clients of Node: openai and the AI SDK.  `make test-clients` installs them into build/clients-node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.conftest import REPOSITORY, Served
from tests.integration.scripted_model import CITY, CITY_QUESTION, THINKING_QUESTION, WEATHER_QUESTION

HOME = REPOSITORY / "build" / "clients-node"

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (HOME / "node_modules").is_dir(), reason="make test-clients installs them"
)

Run = Callable[..., Any]
WEATHER = "It is sunny in Oslo and sunny in Bergen."


@pytest.fixture
def run(scripted: Served) -> Run:
    def flow(program: str, name: str, *arguments: str) -> Any:
        script = shutil.copy(REPOSITORY / "tests" / "integration" / "node" / program, HOME)  # beside node_modules
        done = subprocess.run(
            ["node", script, scripted.url, name, *arguments], capture_output=True, text=True, timeout=60, env=os.environ
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return flow


@pytest.mark.parametrize("flow", ["plain", "stream"])
def test_openai_answers(run: Run, flow: str) -> None:
    assert run("openai_client.mjs", flow) == {"text": "Hello wörld!", "tokens": 49}


def test_openai_two_step_tools(run: Run) -> None:
    assert run("openai_client.mjs", "tools", WEATHER_QUESTION) == {"text": WEATHER}
    assert run("openai_client.mjs", "streamed_tools", WEATHER_QUESTION) == {"cities": ["Oslo", "Bergen"]}


def test_openai_structured(run: Run) -> None:
    assert run("openai_client.mjs", "structured", CITY_QUESTION) == CITY


def test_openai_refusal(run: Run) -> None:
    refusal = {"name": "BadRequestError", "status": 400, "param": "n", "code": "unsupported_value"}
    assert run("openai_client.mjs", "refusal") == refusal


@pytest.mark.parametrize("flow", ["plain", "stream"])
def test_ai_sdk_answers(run: Run, flow: str) -> None:
    assert run("ai_sdk.mjs", flow) == {"text": "Hello wörld!", "tokens": 49, "finishReason": "stop"}


def test_ai_sdk_reasoning(run: Run) -> None:
    assert run("ai_sdk.mjs", "reasoning", THINKING_QUESTION) == {"text": "Done.", "reasoning": "Hm, well."}


@pytest.mark.parametrize("flow", ["tools", "streamed_tools"])
def test_ai_sdk_two_step_tools(run: Run, flow: str) -> None:
    assert run("ai_sdk.mjs", flow, WEATHER_QUESTION) == {"text": WEATHER, "steps": 2}


def test_ai_sdk_structured(run: Run) -> None:
    assert run("ai_sdk.mjs", "structured", CITY_QUESTION) == CITY


def test_ai_sdk_default_provider_is_told_where_to_ask(run: Run) -> None:
    told = run("ai_sdk.mjs", "responses_api")
    assert told["status"] == 404 and "/v1/chat/completions" in told["message"]


def test_ai_sdk_refusal(run: Run) -> None:
    told = run("ai_sdk.mjs", "refusal")
    assert told["status"] == 400 and "'temperature' should be less than or equal to 2" in told["message"]
