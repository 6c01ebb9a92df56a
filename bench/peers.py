"""Compare our speed with llama.cpp's on the same file: runs take turns, medians are compared.

python bench/peers.py MODEL --peer-python build/peers-venv/bin/python --out build/bench

llama.cpp is measured with and without repacking its weights; we are held against the better of the two.
Taking turns spreads what else the machine does over both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ours
import plots

PEER = Path(__file__).with_name("peer_llama.py")


@dataclass(frozen=True)
class Case:
    """What is run: a prompt and the tokens after it, on so many threads."""

    prompt: int
    generate: int
    threads: int


def cases(n_cpus: int) -> list[Case]:
    full = [Case(64, 0, n_cpus), Case(421, 32, n_cpus), Case(1024, 0, n_cpus)]
    return full if n_cpus == 1 else [*full, Case(421, 0, 1)]


def run_peer(python: Path, model: Path, case: Case, repack: int) -> dict[str, float]:
    options = {"prompt": case.prompt, "generate": case.generate, "threads": case.threads, "repack": repack}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [str(python), str(PEER), str(model), *words]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    speeds: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return speeds


def compare(args: argparse.Namespace, case: Case) -> list[dict[str, Any]]:
    """One row per figure: prefill, and decode if the case generates."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    figures = ["prefill_tok_s"] + (["decode_tok_s"] if case.generate else [])
    for _ in range(args.repeat):
        runs = {
            "ours": ours.run(args.model, case.prompt, case.generate, case.threads, repeat=1),
            "repack 0": run_peer(args.peer_python, args.model, case, 0),
            "repack 1": run_peer(args.peer_python, args.model, case, 1),
        }
        for side, speeds in runs.items():
            for figure in figures:
                found[side, figure].append(speeds[figure])
    rows = []
    for figure in figures:
        medians = {side: statistics.median(found[side, figure]) for side in ("ours", "repack 0", "repack 1")}
        peer = max(medians["repack 0"], medians["repack 1"])
        what = f"prefill {case.prompt}" if figure == "prefill_tok_s" else f"decode {case.generate}"
        name = f"{what}, {case.threads} thread{'s' if case.threads > 1 else ''}"
        rows.append({"name": name, "ratio": medians["ours"] / peer, "tok_s": medians, "runs": args.repeat})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare our speed with llama.cpp's.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--peer-python", type=Path, required=True, help="a Python that has llama-cpp-python")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for case in cases(len(os.sched_getaffinity(0))):
        for row in compare(args, case):
            rows.append(row)
            sides = ", ".join(f"{side} {speed:.1f}" for side, speed in row["tok_s"].items())
            print(f"{row['name']:26} {row['ratio']:5.2f} x  ({sides} tok/s)", flush=True)
    result = args.out / f"peers-{args.model.stem}.json"
    result.write_text(json.dumps(rows, indent=1) + "\n")
    plots.ratios(rows, args.model.stem, result.with_suffix(".png"))


if __name__ == "__main__":
    main()
