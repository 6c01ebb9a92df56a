"""The log as it is written."""

from __future__ import annotations

import json

import pytest

from handler.log import frames, log, log_metrics, set_up


def test_a_record_is_one_flat_json_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("info")
    log("prefill", prefill_path="base", prompt_tokens=2112, prefill_ms=31.4, diverge_at=None)
    out, err = capsys.readouterr()
    line = json.loads(err)
    assert (out, err.count("\n")) == ("", 1)
    assert {name: line[name] for name in line if name != "timestamp"} == {
        "level": "INFO",
        "message": "prefill",
        "prefill_path": "base",
        "prompt_tokens": 2112,
        "prefill_ms": 31.4,
    }
    assert line["timestamp"].endswith("Z") and len(line["timestamp"]) == 24


def test_the_level_keeps_lesser_records_out(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("error")
    log("prefill")
    assert capsys.readouterr().err == ""
    set_up("info")


def test_metrics_are_in_cloudwatchs_embedded_format(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("info")
    log_metrics("qwarm", {"function_name": "f", "prefill_ms": 20.0, "init_ms": None, "prefill_path": "full"})
    line = json.loads(capsys.readouterr().err)
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert directive == {
        "Namespace": "qwarm",
        "Dimensions": [["function_name"]],
        "Metrics": [{"Name": "prefill_ms", "Unit": "Milliseconds"}],
    }
    assert (line["function_name"], line["prefill_ms"]) == ("f", 20.0)
    assert line["_aws"]["Timestamp"] > 1_700_000_000_000


def test_frames_name_places_and_not_what_was_said() -> None:
    try:
        raise ValueError("a secret")
    except ValueError as error:
        places = frames(error.__traceback__)
    assert places[-1].endswith("test_frames_name_places_and_not_what_was_said")
    assert "secret" not in "".join(places)
