"""The summary of a function's log."""

from __future__ import annotations

import json

from log_report import USD_PER_GB_S, USD_PER_REQUEST, parsed, report


def line(**fields: object) -> str:
    return json.dumps(fields)


PREFILL = {"message": "prefill", "restored_at": 0, "prefilled": 1000, "prefill_path": "full"}
LOG = [
    "START RequestId: not JSON",
    "{broken",
    "[1, 2]",
    line(message="ready", init_ms=900.0),
    *(line(**PREFILL, prefill_ms=ms) for ms in (100.0, 200.0, 300.0)),
    line(**{**PREFILL, "prefill_path": "anchor", "restored_at": 3000, "prefilled": 0}, prefill_ms=5.0),
    line(message="completion", decode_tok_s=20.0),
    line(message="completion", decode_tok_s=None),
    line(message="refused", status=400, code="invalid_value"),
    line(message="failed", status=503, code="busy"),
    line(message="failed", status=503, code="busy"),
    line(type="platform.report", record={"metrics": {"billedDurationMs": 2000, "memorySizeMB": 10240}}),
]


def test_the_report_counts_paths_reuse_refusals_and_money() -> None:
    usd = 20 * USD_PER_GB_S + USD_PER_REQUEST
    assert report(parsed(LOG)) == [
        "4 prompts, 2 answers",
        "prompt tokens: 3000 reused (50%), 3000 computed",
        "  full                3 x, p50 200.0, p95 290.0 ms, 1000 tokens computed each",
        "  anchor              1 x, p50 5.0, p95 5.0 ms, 0 tokens computed each",
        "decode p50 20.0, p95 20.0 tok/s",
        "1 cold starts, p50 900.0, p95 900.0 ms to a loaded model",
        "2 x 503 busy",
        "1 x 400 invalid_value",
        f"{usd:.4f} US dollars, {usd:.6f} per turn",
    ]


def test_a_log_without_requests_is_said_to_be_one() -> None:
    assert report(parsed(["noise"])) == ["0 prompts, 0 answers", "0 cold starts", "no request was refused or failed"]
