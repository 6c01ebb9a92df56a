"""What the log says of a start: where the time went."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.stages import Stages
from handler import app
from handler.__main__ import PROVISIONED_WAIT_S, init
from tests.emulator import Lambda
from tests.handler.scripted import KEY, url_event

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "models" / "qwarm-demo.gguf"
STAGES = [
    "imports_ms",
    "fetch_ms",
    "header_ms",
    "model_ms",
    "fingerprint_ms",
    "tokenizer_ms",
    "template_ms",
    "session_ms",
]


@pytest.fixture(scope="module")
def records() -> dict[str, dict[str, Any]]:
    """The log of one start by message."""
    command = [sys.executable, "-m", "handler"]
    with Lambda(
        command, ROOT, {"QWARM_API_KEY": KEY, "QWARM_MODEL": str(MODEL), "QWARM_SNAPSHOT_DIR": "off"}
    ) as function:
        function.invoke(url_event(path="/health", method="GET")).body()
        give_up_s = time.monotonic() + 30
        while '"init"' not in (log := function.stderr()):
            assert time.monotonic() < give_up_s, log
            time.sleep(0.05)
    return {line["message"]: line for line in map(json.loads, log.splitlines())}


def test_the_stages_of_a_start_add_up_to_all_of_it(records: dict[str, dict[str, Any]]) -> None:
    init = records["init"]
    assert [name for name in init if name in STAGES] == STAGES
    assert all(init[name] >= 0 for name in STAGES)
    assert sum(init[name] for name in STAGES) == pytest.approx(init["init_ms"], abs=0.05 * (len(STAGES) + 1))
    assert init["imports_ms"] > 0 and init["tokenizer_ms"] > 0
    assert init["init_ms"] == records["ready"]["init_ms"]


def test_the_weights_are_read_beside_the_stages(records: dict[str, dict[str, Any]]) -> None:
    init = records["init"]
    assert init["page_in_ms"] > 0
    assert 0.8 * MODEL.stat().st_size < init["page_in_mb"] * 1e6 <= MODEL.stat().st_size


def test_a_stage_lasts_from_the_end_of_the_one_before_it() -> None:
    stages = Stages(time.perf_counter() - 2)
    stages.end("first")
    time.sleep(0.02)
    stages.end("second")
    assert list(stages.ms) == ["first", "second"]
    assert stages.ms["first"] >= 2000 > stages.ms["second"] >= 20
    assert sum(stages.ms.values()) == pytest.approx(stages.total_ms)


@pytest.mark.parametrize(("kind", "waits"), [("on-demand", []), ("provisioned-concurrency", [PROVISIONED_WAIT_S])])
def test_only_an_environment_that_is_kept_ready_waits_for_its_weights(
    monkeypatch: pytest.MonkeyPatch, kind: str, waits: list[float]
) -> None:
    waited: list[float] = []
    engine = SimpleNamespace(page_in=SimpleNamespace(wait=waited.append))
    loader = SimpleNamespace(engine=lambda timeout_ms: engine)
    monkeypatch.setattr(app, "init", lambda: SimpleNamespace(loader=loader))
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", kind)
    init()
    assert waited == waits
