"""What the function's log says: `python -m handler.report LOGFILE|-` or `--log-group GROUP`.

A table by prefill path, speeds, cold starts, refusals and cost, and a picture of prefill time against prompt length.
Lines may carry what `aws logs tail` or `sam logs` write before them; what is no record of the function is passed over.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

USD_PER_GB_S = 0.0000133334  # Lambda on arm64, first tier, in most regions
USD_PER_REQUEST = 0.0000002

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prefill:
    """One prompt."""

    path: str
    prompt_tokens: int
    reused: int
    computed: int
    ms: float
    kernel: str

    @property
    def per_token(self) -> bool:
        """Whether rows were multiplied one by one, which a prefill never should."""
        return self.kernel.endswith("/per_token")


def parsed(lines: Iterable[str]) -> Iterator[Record]:
    """The records among the lines; the platform's own carry `type` instead of `message`."""
    for line in lines:
        start = line.find("{")
        try:
            record = json.loads(line[start:]) if start >= 0 else None
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def by_message(records: Iterable[Record]) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[str(record.get("message", record.get("type")))].append(record)
    return groups


def prefills(records: Iterable[Record]) -> list[Prefill]:
    """The prompts among the records; one without all of these figures is another program's."""
    found = []
    for record in records:
        figures = [_number(record, name) for name in ("prompt_tokens", "restored_at", "prefilled", "prefill_ms")]
        if all(figure >= 0 for figure in figures):
            prompt, reused, computed, ms = figures
            path, kernel = str(record.get("prefill_path")), str(record.get("kernel"))
            found.append(Prefill(path, int(prompt), int(reused), int(computed), ms, kernel))
    return found


def report(records: Iterable[Record], usd_per_gb_s: float = USD_PER_GB_S) -> list[str]:
    """The lines to print."""
    groups = by_message(records)
    prompts, completions = prefills(groups["prefill"]), groups["completion"]
    lines = [f"{len(prompts)} prompts, {len(completions)} answers"]
    if prompts:
        lines += _prefill_lines(prompts)
    if completions:
        speeds = [speed for record in completions if (speed := _number(record, "decode_tok_s")) > 0]
        lines.append(f"decode {_percentiles(speeds)} tok/s" if speeds else "decode: one token each")
    cold_ms = [ms for record in groups["ready"] if (ms := _number(record, "init_ms")) >= 0]
    lines.append(f"{len(cold_ms)} cold starts" + (f", {_percentiles(cold_ms)} ms to a loaded model" if cold_ms else ""))
    troubles = groups["refused"] + groups["failed"]
    refusals = Counter(f"{trouble.get('status')} {trouble.get('code')}" for trouble in troubles)
    lines += [f"{count} x {said}" for said, count in refusals.most_common()] or ["no request was refused or failed"]
    bills = [gb_s for record in groups["platform.report"] if (gb_s := _billed_gb_s(record)) >= 0]
    if bills:
        usd = sum(bills) * usd_per_gb_s + len(bills) * USD_PER_REQUEST
        lines.append(f"{usd:.4f} US dollars, {usd / len(bills):.6f} per turn")
    return lines


def _prefill_lines(prompts: list[Prefill]) -> list[str]:
    paths: dict[str, list[Prefill]] = defaultdict(list)
    for prompt in prompts:
        paths[prompt.path].append(prompt)
    head = ("path", "count", "prompt tok", "reused", "share", "p50 ms", "p95 ms", "tok/s")
    rows: list[tuple[str, ...]] = [head]
    rows += [_row(path, group) for path, group in sorted(paths.items(), key=lambda item: -len(item[1]))]
    if len(paths) > 1:
        rows.append(_row("all", prompts))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *cells in rows:
        right = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join([name.ljust(widths[0]), *right]))
    regressions = sum(prompt.per_token for prompt in prompts)
    if regressions:
        lines.append(f"REGRESSION: {regressions} of {len(prompts)} prompts ran per_token, one row at a time")
    return lines


def _row(path: str, group: list[Prefill]) -> tuple[str, ...]:
    reused, computed = sum(p.reused for p in group), sum(p.computed for p in group)
    p50, p95 = _cuts([p.ms for p in group])
    busy_ms = sum(p.ms for p in group if p.computed)
    speed = f"{computed * 1000 / busy_ms:.0f}" if busy_ms else "-"
    share = f"{reused / max(1, reused + computed):.0%}"
    tokens = f"{sum(p.prompt_tokens for p in group):,}"
    return path, f"{len(group):,}", tokens, f"{reused:,}", share, f"{p50:.1f}", f"{p95:.1f}", speed


def _number(record: Record, name: str) -> float:
    """A figure of a record, -1 where it has none."""
    value = record.get(name)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else -1


def _billed_gb_s(record: Record) -> float:
    platform = record.get("record")
    metrics = platform.get("metrics") if isinstance(platform, dict) else None
    if not isinstance(metrics, dict):
        return -1
    billed_ms, memory_mb = _number(metrics, "billedDurationMs"), _number(metrics, "memorySizeMB")
    return billed_ms / 1000 * memory_mb / 1024 if billed_ms >= 0 and memory_mb >= 0 else -1


def _percentiles(values: list[float]) -> str:
    p50, p95 = _cuts(values)
    return f"p50 {p50:.1f}, p95 {p95:.1f}"


def _cuts(values: list[float]) -> tuple[float, float]:
    cuts = quantiles(values, n=20, method="inclusive") if len(values) > 1 else values * 19
    return cuts[9], cuts[18]


def _group_lines(group: str, hours: float) -> Iterator[str]:
    import boto3  # not in every installation

    begin_ms = int((time.time() - hours * 3600) * 1000)
    pages = boto3.client("logs").get_paginator("filter_log_events").paginate(logGroupName=group, startTime=begin_ms)
    for page in pages:
        for event in page["events"]:
            yield event["message"]


def _file_lines(name: str) -> Iterator[str]:
    if name == "-":
        yield from sys.stdin
        return
    with Path(name).open(encoding="utf-8", errors="replace") as file:
        yield from file


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m handler.report", description=__doc__.partition("\n")[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("log", metavar="LOGFILE", nargs="?", help="lines of the log; -: standard input")
    source.add_argument("--log-group", metavar="GROUP", help="read CloudWatch instead, with AWS credentials and boto3")
    parser.add_argument("--hours", type=float, default=24, help="how far back, with --log-group; default: %(default)s")
    parser.add_argument("--png", metavar="FILE", default="prefill.png", help="default: %(default)s; off: none")
    parser.add_argument(
        "--usd-per-gb-s", type=float, default=USD_PER_GB_S, help="price of a GB-second; default: %(default).10f"
    )
    options = parser.parse_args(argv)
    try:
        lines = _group_lines(options.log_group, options.hours) if options.log_group else _file_lines(options.log)
        records = list(parsed(lines))
        print("\n".join(report(records, options.usd_per_gb_s)))
        found = prefills(by_message(records)["prefill"])
        if found and options.png != "off":
            from handler.report_plot import plot

            plot(found, Path(options.png))
            print(f"{options.png} written")
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        print(f"error: this needs {package}, which is not installed: pip install {package}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
