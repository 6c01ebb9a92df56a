"""How close decode comes to the memory's speed: tokens per second × bytes per token against a plain read loop.

python bench/decode_limit.py MODEL --reader build/bench/read_bandwidth --out build/bench

A token reads every weight once, and reads and writes the recurrent state.  The two programs take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
from pathlib import Path

import ours
from engine.model_file import ModelFile
from engine.native import Model

GENERATE = 64
REPEAT = 3


def bytes_per_token(path: Path) -> int:
    with ModelFile(path) as file:
        weights = sum(tensor.n_bytes for tensor in file.tensors.values())
        return weights + 2 * Model(file, n_threads=1).state_bytes


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare decode with the memory's speed.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--reader", type=Path, required=True, help="the read_bandwidth program")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    token_bytes = bytes_per_token(args.model)
    rows = []
    for threads in sorted({1, len(os.sched_getaffinity(0))}):
        read_gb_s, decode_tok_s = [], []
        for _ in range(REPEAT):
            command = (str(args.reader), str(args.model), str(threads))
            read_gb_s.append(float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
            decode_tok_s.append(ours.run(args.model, 16, GENERATE, threads, repeat=1)["decode_tok_s"])
        limit, speed = statistics.median(read_gb_s), statistics.median(decode_tok_s)
        fraction = speed * token_bytes / 1e9 / limit
        row = {"threads": threads, "read_gb_s": limit, "decode_tok_s": speed, "fraction": fraction}
        rows.append(row | {"token_bytes": token_bytes})
        print(
            f"{threads} threads: decode {speed:.1f} tok/s × {token_bytes / 1e6:.0f} MB = "
            f"{speed * token_bytes / 1e9:.1f} GB/s, {fraction:.0%} of the {limit:.1f} GB/s that a loop reads",
            flush=True,
        )
    (args.out / "decode-limit.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
