"""Measure the engine on one model: prompt lengths × threads, as JSON and as a plot.

python bench/measure.py MODEL --out build/bench
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import ours
import plots

PROMPTS = (64, 421, 1024, 2048, 4096)
GENERATE = 32
REPEAT = 3


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure prefill and decode speed of a model.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    n_cpus = len(os.sched_getaffinity(0))
    rows = []
    for threads in sorted({1, n_cpus}):
        for prompt in PROMPTS:
            row = ours.run(args.model, prompt, GENERATE, threads, REPEAT)
            rows.append(row)
            print(
                f"{row['kernel']}, {threads} threads, {prompt:4} tokens: "
                f"prefill {row['prefill_tok_s']:6.1f} tok/s, decode {row['decode_tok_s']:5.2f} tok/s, "
                f"peak {row['peak_rss_mb'] - row['file_mb']:.0f} MB above the file's {row['file_mb']:.0f} MB",
                flush=True,
            )
    result = args.out / f"{args.model.stem}.json"
    result.write_text(json.dumps(rows, indent=1) + "\n")
    plot = result.with_suffix(".png")
    plots.speed(rows, args.model.stem, plot)
    print(f"{result} {plot}")


if __name__ == "__main__":
    main()
