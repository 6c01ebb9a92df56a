"""The summary of a function's log, and its picture."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from handler.report import USD_PER_GB_S, USD_PER_REQUEST, by_message, main, parsed, prefills, report


def line(**fields: object) -> str:
    return json.dumps(fields)


def prefill(path: str = "full", prompt: int = 1000, reused: int = 0, ms: float = 100.0, **more: Any) -> str:
    counts = {"prompt_tokens": prompt, "restored_at": reused, "prefilled": prompt - reused, "prefill_ms": ms}
    return line(message="prefill", prefill_path=path, **counts, **{"kernel": "i8mm/gemm_i8", **more})


LOG = [
    "START RequestId: not JSON",
    "{broken",
    "[1, 2]",
    line(message="ready", init_ms=900.0),
    *(prefill(ms=ms) for ms in (100.0, 200.0, 300.0)),
    prefill("anchor", 3000, 3000, 5.0),
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
        "path    count  prompt tok  reused  share  p50 ms  p95 ms  tok/s",
        "full        3       3,000       0     0%   200.0   290.0   5000",
        "anchor      1       3,000   3,000   100%     5.0     5.0      -",
        "all         4       6,000   3,000    50%   150.0   285.0   5000",
        "decode p50 20.0, p95 20.0 tok/s",
        "1 cold starts, p50 900.0, p95 900.0 ms to a loaded model",
        "2 x 503 busy",
        "1 x 400 invalid_value",
        f"{usd:.4f} US dollars, {usd:.6f} per turn",
    ]


def test_a_log_without_requests_is_said_to_be_one() -> None:
    assert report(parsed(["noise"])) == ["0 prompts, 0 answers", "0 cold starts", "no request was refused or failed"]


def test_the_price_is_a_parameter() -> None:
    assert report(parsed(LOG), usd_per_gb_s=1.0)[-1].startswith("20.0000 US dollars")


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-12-01T05:55:44.123000+00:00 2026/12/01/[$LATEST]0f9a ",
        "2026/12/01/[$LATEST]0f9a 2026-12-01T05:55:44.123000 ",
        "",
    ],
)
def test_what_log_readers_write_before_a_record_is_passed_over(prefix: str) -> None:
    found = prefills(by_message(parsed([prefix + prefill("base", 500, 400)]))["prefill"])
    assert [(p.path, p.prompt_tokens, p.reused, p.computed) for p in found] == [("base", 500, 400, 100)]


@pytest.mark.parametrize(
    "odd",
    [
        line(message="prefill"),
        prefill(ms="fast"),  # type: ignore[arg-type]
        prefill(prompt=True, reused=False),
        line(message="completion", decode_tok_s="x"),
        line(type="platform.report", record=[]),
        line(type="platform.report", record={"metrics": {"billedDurationMs": "1"}}),
        line(message="refused"),
        "[" * 100_000,
        "{" * 5 + '"a":' * 100_000,
    ],
)
def test_odd_lines_neither_count_as_prompts_nor_stop_the_report(odd: str) -> None:
    assert report(parsed([odd, *LOG]))[0].startswith("4 prompts")


def test_a_prompt_that_ran_row_by_row_is_a_line_of_its_own() -> None:
    lines = report(parsed([*LOG, prefill(kernel="i8mm/per_token")]))
    assert "REGRESSION: 1 of 5 prompts ran per_token, one row at a time" in lines
    assert not [text for text in report(parsed(LOG)) if "REGRESSION" in text]


def test_the_command_reads_standard_input_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "prefill.png"
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join([*LOG, prefill("strange"), prefill(prompt=0)])))
    assert main(["-", "--png", str(picture)]) == 0
    assert "strange" in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_regression_and_only_a_regression_colors_the_picture_red(tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image")
    from handler.report_plot import plot

    def red(*lines: str) -> int:
        plot(prefills(by_message(parsed([*LOG, *lines]))["prefill"]), tmp_path / "p.png")
        pixels = image.imread(tmp_path / "p.png")[..., :3]
        return int(((pixels[..., 0] > 0.75) & (pixels[..., 1:].max(-1) < 0.25)).sum())

    assert red() == 0
    assert red(prefill(kernel="i8mm/per_token", ms=20_000.0)) > 500
    assert red(prefill(ms=20_000.0)) > 100


def test_without_matplotlib_the_table_is_there_and_one_sentence_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.txt"
    log.write_text("\n".join(LOG))
    monkeypatch.delitem(sys.modules, "handler.report_plot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main([str(log)]) == 1
    said = capsys.readouterr()
    assert "full        3" in said.out
    assert said.err == "error: this needs matplotlib, which is not installed: pip install matplotlib\n"


def test_a_file_that_is_not_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["/nowhere/log.txt"]) == 1
    assert capsys.readouterr().err == "error: [Errno 2] No such file or directory: '/nowhere/log.txt'\n"
