"""Where the time of prefill and decode goes, by part of the forward pass, as JSON and as a plot.

python bench/time_shares.py MODEL --out build/bench

Two sources, each left out in words where its tool is missing: the samples that perf takes here of one thread, and
the instructions that qemu counts in the arm64 build, which are shares of instructions and not of time.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import arm64_forward
import functions
import plots
from arm64_count import build_plugin, missing_tools

PROMPT = 421
SAMPLES_PER_S = 499
# Bytes of the stack kept with a sample: enough to find the unit that called a kernel.
STACK_BYTES = 8192
ENTRY = "qw_session_eval"
ARM64_CASES = (
    arm64_forward.Case("i8mm", "prefill", PROMPT),
    arm64_forward.Case("dotprod", "prefill", PROMPT),
    arm64_forward.Case("dotprod", "decode", 4),
)

Bars = dict[str, dict[str, float]]


def stacks(samples: str) -> Iterator[list[str]]:
    """The functions of each sample, innermost first."""
    for sample in samples.split("\n\n"):
        frames = [line.split(None, 1) for line in sample.splitlines() if line.strip()]
        if found := [frame[1].removesuffix(" (inlined)") for frame in frames if len(frame) == 2]:
            yield found


def sampled_shares(model: Path, *job: str) -> dict[str, float]:
    """Of the time inside the engine's C code."""
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/perf.data"
        sampler = ("perf", "record", "--quiet", "--event", "cpu-clock", "--freq", str(SAMPLES_PER_S))
        unwinder = ("--call-graph", f"dwarf,{STACK_BYTES}", "--output", data, "--")
        bench = (sys.executable, "-m", "engine", "bench", str(model), "--threads", "1", "--json", *job)
        subprocess.run((*sampler, *unwinder, *bench), check=True, stdout=subprocess.DEVNULL)
        script = ("perf", "script", "--input", data, "--fields", "ip,sym")
        samples = subprocess.run(script, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    groups = Counter(
        functions.group_of(stack[0], stack)
        for stack in stacks(samples.stdout)
        if stack[0].startswith("qw_") or ENTRY in stack
    )
    return {group: groups[group] / groups.total() for group in functions.GROUPS if groups[group]}


def sampled(model: Path) -> Bars:
    if not shutil.which("perf"):
        print("No time shares of this machine: perf is missing (in Debian: linux-perf)", file=sys.stderr)
        return {}
    prefill = ("--prompt", str(PROMPT), "--generate", "0", "--repeat", "5")
    # Long enough for the few tokens of its prefills not to matter.
    decode = ("--prompt", "1", "--generate", "512", "--repeat", "1")
    return {
        f"prefill {PROMPT}, time here": sampled_shares(model, *prefill),
        "decode, time here": sampled_shares(model, *decode),
    }


def counted() -> Bars:
    if missing := missing_tools():
        print("No instruction shares of arm64; missing: " + ", ".join(missing), file=sys.stderr)
        return {}
    build_plugin()
    drivers = arm64_forward.build_drivers()
    bars = {}
    for case in ARM64_CASES:
        groups = arm64_forward.millions_per_token(case, drivers)
        total = sum(groups.values())
        print(f"{case.name}: {total:.1f} million instructions per token", flush=True)
        what = f"prefill {case.n_tokens}" if case.phase == "prefill" else case.phase
        bars[f"{what}, {case.isa} instructions"] = {group: n / total for group, n in groups.items()}
    return bars


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure where the time of prefill and decode goes.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    args = parser.parse_args()
    bars = sampled(args.model) | counted()
    for name, shares in bars.items():
        print(f"{name:32} " + ", ".join(f"{group} {share:.1%}" for group, share in shares.items()))
    args.out.mkdir(parents=True, exist_ok=True)
    result = args.out / "time-shares.json"
    result.write_text(json.dumps(bars, indent=1) + "\n")
    if bars:
        plots.shares(bars, functions.GROUPS, result.with_suffix(".png"))


if __name__ == "__main__":
    main()
