"""The clients of Node: openai and the AI SDK.  `make test-clients` installs them into build/clients-node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.integration import weather
from tests.integration.conftest import REPOSITORY, Served
from tests.integration.scripted_model import CITY, CITY_QUESTION, THINKING_QUESTION, WEATHER_QUESTION

HOME = REPOSITORY / "build" / "clients-node"

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (HOME / "node_modules").is_dir(), reason="make test-clients installs them"
)

Run = Callable[..., Any]
WEATHER = "It is 4 °C, rainy and 6 °C, rainy."  # the tool counts letters
REAL_WEATHER = "It is 6 °C and rainy in Bergen."


def flow(url: str, program: str, name: str, *arguments: str) -> Any:
    script = shutil.copy(REPOSITORY / "tests" / "integration" / "node" / program, HOME)  # beside node_modules
    command = ["node", script, url, name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def run(scripted: Served) -> Run:
    return partial(flow, scripted.url)


@pytest.fixture
def real_run(real: Served) -> Run:
    return partial(flow, real.url)


@pytest.mark.parametrize("flow", ["plain", "stream"])
def test_openai_answers(run: Run, flow: str) -> None:
    assert run("openai_client.mjs", flow) == {"text": "Hello wörld!", "tokens": 49}


def test_openai_two_step_tools(run: Run) -> None:
    assert run("openai_client.mjs", "tools", WEATHER_QUESTION) == {"text": WEATHER}
    assert run("openai_client.mjs", "streamed_tools", WEATHER_QUESTION) == {"cities": ["Oslo", "Bergen"]}


def test_openai_with_a_real_model_calls_the_tool_and_tells_its_result(real_run: Run) -> None:
    assert real_run("openai_client.mjs", "tools", weather.QUESTION) == {"text": REAL_WEATHER}


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


@pytest.mark.parametrize("flow", ["tools", "streamed_tools"])
def test_ai_sdk_with_a_real_model_calls_the_tool_and_tells_its_result(real_run: Run, flow: str) -> None:
    assert real_run("ai_sdk.mjs", flow, weather.QUESTION) == {"text": REAL_WEATHER, "steps": 2}


def test_ai_sdk_structured(run: Run) -> None:
    assert run("ai_sdk.mjs", "structured", CITY_QUESTION) == CITY


def test_ai_sdk_default_provider_is_told_where_to_ask(run: Run) -> None:
    told = run("ai_sdk.mjs", "responses_api")
    assert told["status"] == 404 and "/v1/chat/completions" in told["message"]


def test_ai_sdk_refusal(run: Run) -> None:
    told = run("ai_sdk.mjs", "refusal")
    assert told["status"] == 400 and "'temperature' should be less than or equal to 2" in told["message"]
