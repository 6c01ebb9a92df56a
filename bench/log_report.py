"""What the function's log says about a time: prefill by path, reuse, speed, cold starts, failures, cost.

python bench/log_report.py --log-group /qwarm/qwarm [--hours 24]    the deployed function's log, with AWS credentials
make invoke 2>log.txt; python bench/log_report.py log.txt           lines kept in a file
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any

USD_PER_GB_S = 0.0000133334  # arm64, first tier, in most regions
USD_PER_REQUEST = 0.0000002

Record = dict[str, Any]


def parsed(lines: Iterable[str]) -> Iterator[Record]:
    """The records among the lines; the platform's own carry `type` instead of `message`."""
    for line in lines:
        start = line.find("{")
        try:
            record = json.loads(line[start:]) if start >= 0 else None
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def log_group_lines(group: str, hours: float) -> Iterator[str]:
    import boto3

    begin_ms = int((time.time() - hours * 3600) * 1000)
    pages = boto3.client("logs").get_paginator("filter_log_events").paginate(logGroupName=group, startTime=begin_ms)
    for page in pages:
        for event in page["events"]:
            yield event["message"]


def report(records: Iterable[Record]) -> list[str]:
    """The lines to print."""
    by_message: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_message[str(record.get("message", record.get("type")))].append(record)
    prefills, completions = by_message["prefill"], by_message["completion"]
    lines = [f"{len(prefills)} prompts, {len(completions)} answers"]
    if prefills:
        lines += _prefill_lines(prefills)
    if completions:
        speeds = [record["decode_tok_s"] for record in completions if record["decode_tok_s"] is not None]
        lines.append(f"decode {_percentiles(speeds)} tok/s" if speeds else "decode: one token each")
    cold_ms = [record["init_ms"] for record in by_message["ready"]]
    lines.append(f"{len(cold_ms)} cold starts" + (f", {_percentiles(cold_ms)} ms to a loaded model" if cold_ms else ""))
    refusals = Counter(
        f"{record['status']} {record['code']}" for record in by_message["refused"] + by_message["failed"]
    )
    lines += [f"{count} x {said}" for said, count in refusals.most_common()] or ["no request was refused or failed"]
    bills = [record["record"]["metrics"] for record in by_message["platform.report"]]
    if bills:
        usd = sum(_cost_usd(bill) for bill in bills)
        lines.append(f"{usd:.4f} US dollars, {usd / len(bills):.6f} per turn")
    return lines


def _prefill_lines(prefills: list[Record]) -> list[str]:
    reused = sum(record["restored_at"] for record in prefills)
    computed = sum(record["prefilled"] for record in prefills)
    share = reused / max(1, reused + computed)
    lines = [f"prompt tokens: {reused} reused ({share:.0%}), {computed} computed"]
    paths: dict[str, list[Record]] = defaultdict(list)
    for record in prefills:
        paths[record["prefill_path"]].append(record)
    for path, group in sorted(paths.items(), key=lambda item: -len(item[1])):
        times = _percentiles([record["prefill_ms"] for record in group])
        mean = sum(record["prefilled"] for record in group) / len(group)
        lines.append(f"  {path:14} {len(group):6} x, {times} ms, {mean:.0f} tokens computed each")
    return lines


def _cost_usd(bill: Record) -> float:
    gb_s: float = bill["billedDurationMs"] / 1000 * bill["memorySizeMB"] / 1024
    return gb_s * USD_PER_GB_S + USD_PER_REQUEST


def _percentiles(values: list[float]) -> str:
    cuts = quantiles(values, n=20, method="inclusive") if len(values) > 1 else values * 19
    return f"p50 {cuts[9]:.1f}, p95 {cuts[18]:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Summarize the function's log.")
    parser.add_argument("files", nargs="*", type=Path, help="files of log lines; none and no group: standard input")
    parser.add_argument("--log-group", help="CloudWatch log group to read instead")
    parser.add_argument("--hours", type=float, default=24)
    args = parser.parse_args()
    if args.log_group:
        lines = log_group_lines(args.log_group, args.hours)
    else:
        lines = (line for path in args.files or [Path("/dev/stdin")] for line in path.open(encoding="utf-8"))
    print("\n".join(report(parsed(lines))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
