"""Decode beside a busy neighbor: with a loop pinned to one core, how much of one undisturbed thread's speed is left.

python bench/neighbor.py MODEL --out build/bench    exit status 1 when it is less than 60 %

A pool whose threads wait for each other by spinning falls far below one thread; ours takes work unit by unit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from engine.model_file import ModelFile
from engine.native import Model, Phase, Session

FLOOR = 0.6
PROMPT, GENERATE, REPEAT = 64, 24, 3


def decode_tok_s(model: Model) -> float:
    session = Session(model, PROMPT + GENERATE)
    session.eval(np.arange(PROMPT, dtype=np.int32), Phase.PREFILL, n_logits=1)
    start_s = time.perf_counter()
    for token in range(GENERATE):
        session.eval(np.array([token], np.int32), Phase.DECODE, n_logits=1)
    return GENERATE / (time.perf_counter() - start_s)


@contextlib.contextmanager
def busy(cpu: int) -> Iterator[None]:
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(loop.pid, {cpu})
        time.sleep(0.3)
        yield
    finally:
        loop.kill()
        loop.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure decode beside a busy neighbor.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    args = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        print("There is one CPU here: a neighbor would leave none undisturbed")
        return 0
    alone, together, disturbed = [], [], []
    with ModelFile(args.model) as file:
        one, all_threads = Model(file, n_threads=1), Model(file, n_threads=len(cpus))
        decode_tok_s(all_threads)  # reads the file into memory
        for _ in range(REPEAT):
            alone.append(decode_tok_s(one))
            together.append(decode_tok_s(all_threads))
            with busy(cpus[-1]):
                disturbed.append(decode_tok_s(all_threads))
        del one, all_threads
    left = statistics.median(disturbed) / statistics.median(alone)
    result = {
        "one_thread_tok_s": statistics.median(alone),
        "threads": len(cpus),
        "all_threads_tok_s": statistics.median(together),
        "disturbed_tok_s": statistics.median(disturbed),
        "left": left,
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "neighbor.json").write_text(json.dumps(result, indent=1) + "\n")
    print(
        f"decode: one thread {result['one_thread_tok_s']:.1f} tok/s, {len(cpus)} threads "
        f"{result['all_threads_tok_s']:.1f}, with a busy core {result['disturbed_tok_s']:.1f}: "
        f"{left:.0%} of one undisturbed thread, at least {FLOOR:.0%} expected"
    )
    return 0 if left >= FLOOR else 1


if __name__ == "__main__":
    sys.exit(main())
