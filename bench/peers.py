"""Compare our speed with llama.cpp's on the same files: runs take turns, medians are compared.

python bench/peers.py MODEL Q8_0_MODEL --peer-python build/peers-venv/bin/python \
    --mistral-python build/mistral-venv/bin/python --out build/bench

llama.cpp is measured with and without repacking its weights; we are held against the better of the two.
Taking turns spreads what else the machine does over both sides.  The first file gets all cases, the others one.
mistral.rs runs once, for it is slow.
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

LLAMA = Path(__file__).with_name("peer_llama.py")
MISTRAL = Path(__file__).with_name("peer_mistral.py")
SIDES = ("ours", "repack 0", "repack 1")
MISTRAL_TOKENS = 8


@dataclass(frozen=True)
class Case:
    """What is run: a prompt and the tokens after it, on so many threads."""

    prompt: int
    generate: int
    threads: int


def cases(n_cpus: int) -> list[Case]:
    full = [Case(64, 0, n_cpus), Case(421, 32, n_cpus), Case(1024, 0, n_cpus), Case(2048, 0, n_cpus)]
    return full if n_cpus == 1 else [*full, Case(421, 0, 1)]


def run_llama(python: Path, model: Path, case: Case, repack: int) -> dict[str, float]:
    options = {"prompt": case.prompt, "generate": case.generate, "threads": case.threads, "repack": repack}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [str(python), str(LLAMA), str(model), *words]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    speeds: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return speeds


def run_mistral(python: Path, model: Path, threads: int) -> dict[str, float] | None:
    """None, and why in words, when it cannot."""
    if not python.exists():
        print(f"mistral.rs was not measured: {python} is missing")
        return None
    command = [str(python), str(MISTRAL), str(model), "--generate", str(MISTRAL_TOKENS)]
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if run.returncode:
        print(f"mistral.rs did not run on {model.name}: {(run.stderr or run.stdout).strip().splitlines()[-1]}")
        return None
    speeds: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return speeds


def compare(args: argparse.Namespace, model: Path, case: Case) -> list[dict[str, Any]]:
    """One row per figure: prefill, and decode if the case generates."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    figures = ["prefill_tok_s"] + (["decode_tok_s"] if case.generate else [])
    for _ in range(args.repeat):
        runs = {
            "ours": ours.run(model, case.prompt, case.generate, case.threads, repeat=1),
            "repack 0": run_llama(args.peer_python, model, case, 0),
            "repack 1": run_llama(args.peer_python, model, case, 1),
        }
        for side, speeds in runs.items():
            for figure in [*figures, "peak_rss_mb"]:
                found[side, figure].append(speeds[figure])
    file_mb = model.stat().st_size / 1e6
    rows = []
    for figure in figures:
        medians = {side: statistics.median(found[side, figure]) for side in SIDES}
        what = f"prefill {case.prompt}" if figure == "prefill_tok_s" else f"decode {case.generate}"
        row = {
            "name": f"{what}, {case.threads} thread{'s' if case.threads > 1 else ''}",
            "model": model.stem,
            "ratio": medians["ours"] / max(medians["repack 0"], medians["repack 1"]),
            "tok_s": medians,
            "above_file_mb": {side: max(found[side, "peak_rss_mb"]) - file_mb for side in SIDES},
            "runs": args.repeat,
        }
        sides = ", ".join(f"{side} {speed:.1f}" for side, speed in medians.items())
        memory = ", ".join(f"{side} {above:.0f}" for side, above in row["above_file_mb"].items())
        print(f"{row['name']:24} {row['ratio']:5.2f} x  ({sides} tok/s; peak above the file: {memory} MB)", flush=True)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare our speed with llama.cpp's.")
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--peer-python", type=Path, required=True, help="a Python that has llama-cpp-python")
    parser.add_argument("--mistral-python", type=Path, help="a Python that has mistralrs")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    n_cpus = len(os.sched_getaffinity(0))
    rows, mistral = [], {}
    for model in args.models:
        print(f"{model.name}, {model.stat().st_size / 1e6:.0f} MB")
        todo = cases(n_cpus) if model == args.models[0] else [Case(421, 0, n_cpus)]
        rows += [row for case in todo for row in compare(args, model, case)]
        if args.mistral_python and (found := run_mistral(args.mistral_python, model, n_cpus)):
            mistral[model.stem] = found
            print(
                f"mistral.rs: prefill {found['prompt']} {found['prefill_tok_s']:.1f} tok/s, "
                f"decode {found['decode_tok_s']:.1f} tok/s, peak {found['peak_rss_mb']:.0f} MB",
                flush=True,
            )
    (args.out / "peers.json").write_text(json.dumps({"llama.cpp": rows, "mistral.rs": mistral}, indent=1) + "\n")
    plots.ratios(rows, args.out / "peers.png")


if __name__ == "__main__":
    main()
