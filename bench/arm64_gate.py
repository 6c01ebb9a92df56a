"""The arm64 performance gate, for any machine: no Arm core, no clock, the same figures in every run.

Four kinds of check on the objects that the product's own rules build:
  loop     llvm-mca's int8 multiply-accumulates per cycle in the GEMM's inner loop, which must not spill
  count    instructions that qemu executed per multiply-accumulate or per weight
  forward  instructions per token of a whole forward pass, held against bench/baseline.json
  isa      no instruction of the i8mm set among the dotprod set's

Exit status: 0 passed, 1 failed, 3 a tool is missing (1 with --require).
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import arm64_forward
from arm64_count import (
    BUILD,
    CLANG,
    GCC,
    MCA,
    OBJDUMP,
    build,
    build_plugin,
    count,
    missing_tools,
    run,
)

MAC = {"smmla": 32, "sdot": 16}


@dataclass(frozen=True)
class LoopFloor:
    """The inner loop of a set's gemm_i8 on a core llvm-mca models."""

    isa: str
    core: str
    floor: float  # multiply-accumulates per cycle


@dataclass(frozen=True)
class CountCeiling:
    """Instructions of one driver pass; rows 0 is the GEMV of one row."""

    isa: str
    type: str
    rows: int
    ceiling: float  # per multiply-accumulate


@dataclass(frozen=True)
class Result:
    what: str
    measured: str
    limit: str
    passed: bool


LOOPS = (
    LoopFloor("i8mm", "neoverse-v1", 120),
    LoopFloor("i8mm", "neoverse-v2", 120),
    LoopFloor("dotprod", "neoverse-n1", 30),
)
COUNTS = (
    CountCeiling("i8mm", "Q4_K", 421, 0.056),
    CountCeiling("i8mm", "Q5_K", 421, 0.056),
    CountCeiling("i8mm", "Q6_K", 421, 0.056),
    CountCeiling("i8mm", "Q8_0", 421, 0.056),
    CountCeiling("i8mm", "Q4_K", 32, 0.080),
    CountCeiling("dotprod", "Q4_K", 421, 0.100),
    CountCeiling("dotprod", "Q5_K", 421, 0.100),
    CountCeiling("dotprod", "Q6_K", 421, 0.100),
    CountCeiling("dotprod", "Q8_0", 421, 0.100),
    CountCeiling("dotprod", "Q4_K", 32, 0.120),
    CountCeiling("dotprod", "Q4_K", 0, 0.50),
    CountCeiling("dotprod", "Q5_K", 0, 0.69),
    CountCeiling("dotprod", "Q6_K", 0, 0.66),
    CountCeiling("dotprod", "Q8_0", 0, 0.41),
)


def instructions(path: str) -> Iterator[tuple[int, str, str]]:
    """Address, mnemonic and operands of each instruction of an object; branch targets are addresses."""
    for line in run(OBJDUMP, "-d", "--no-show-raw-insn", path).stdout.splitlines():
        if match := re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)", line):
            yield int(match[1], 16), match[2], match[3].split("//")[0].strip()


def inner_loops(code: list[tuple[int, str, str]]) -> Iterator[list[tuple[str, str]]]:
    """The loops that contain no other loop: from a backward branch's target to the branch."""
    spans = []
    for address, mnemonic, operands in code:
        target = re.search(r"\b([0-9a-f]+) <", operands)
        if target and re.fullmatch(r"b\.\w+|cbn?z|tbn?z", mnemonic) and int(target[1], 16) <= address:
            spans.append((int(target[1], 16), address))
    for span in spans:
        if not any(span[0] <= other[0] and other[1] <= span[1] and other != span for other in spans):
            yield [(m, o) for a, m, o in code if span[0] <= a <= span[1]]


def cycles(loop: list[tuple[str, str]], core: str) -> float:
    """llvm-mca's cycles per iteration."""
    lines = ["top:"] + [f"{m} {re.sub(r'[0-9a-f]+ <.*', 'top', o)}" for m, o in loop]
    command = (MCA, "-mtriple=aarch64", f"-mcpu={core}", "-mattr=+i8mm,+dotprod", "-iterations=200")
    total = re.search(r"Total Cycles:\s+(\d+)", run(*command, stdin="\n".join(lines) + "\n").stdout)
    if not total:
        sys.exit(f"{MCA} printed no cycles for {core}")
    return int(total[1]) / 200


def check_loop(limit: LoopFloor, gemm: str, compiler: str) -> Result:
    """The slowest of the loops that multiply."""
    rates, spills = [], 0
    for loop in inner_loops(list(instructions(gemm))):
        if mac := sum(MAC.get(m, 0) for m, _ in loop):
            rates.append(mac / cycles(loop, limit.core))
            spills += sum("[sp" in operands for _, operands in loop)
    rate = min(rates, default=0.0)
    what = f"{limit.isa} GEMM inner loop, {compiler}, {limit.core}: MAC/cycle, spills"
    passed = rate >= limit.floor and spills == 0
    return Result(what, f"{rate:.1f}, {spills}", f">= {limit.floor:g}, 0", passed)


def check_count(driver: Path, limit: CountCeiling) -> Result:
    executed, mac = count(driver, limit.isa, limit.type, str(limit.rows))
    ratio = executed.total() / mac
    job = f"P8 of {limit.rows} rows: instructions/MAC" if limit.rows else "GEMV: instructions/weight"
    return Result(f"{limit.isa} {limit.type} {job}", f"{ratio:.4f}", f"<= {limit.ceiling:g}", ratio <= limit.ceiling)


def check_forward(counted: dict[str, dict[str, float]]) -> Iterator[Result]:
    """Also prints where the instructions went."""
    baseline = arm64_forward.read_baseline()
    for name, groups in counted.items():
        total, was = sum(groups.values()), sum(baseline[name].values())
        most = was * (1 + arm64_forward.TOLERANCE)
        print(f"{name}: " + ", ".join(f"{group} {n:.1f}" for group, n in groups.items()))
        what = f"{name} tokens, whole forward pass: million instructions/token"
        yield Result(what, f"{total:.1f}", f"<= {most:.1f} ({was:.1f} + 3 %)", total <= most)


def check_isa() -> Result:
    found = sum(
        mnemonic.endswith("mmla") or mnemonic in ("usdot", "sudot", "bfdot")
        for path in (BUILD / "gcc/obj/kernels/dotprod").glob("*.o")
        for _, mnemonic, _ in instructions(str(path))
    )
    return Result("dotprod objects: i8mm and bf16 instructions", str(found), "0", found == 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--require", action="store_true", help="fail when a tool is missing")
    parser.add_argument("--refresh", action="store_true", help="write bench/baseline.json as counted now")
    arguments = parser.parse_args()
    if missing := missing_tools():
        print("The arm64 gate did not run; missing: " + ", ".join(missing), file=sys.stderr)
        return 1 if arguments.require else 3

    build_plugin()
    drivers = arm64_forward.build_drivers()
    results = [check_isa()]
    for limit in LOOPS:
        for name, compiler in (("gcc", GCC), ("clang", CLANG)):
            [gemm] = build(compiler, name, f"obj/kernels/{limit.isa}/gemm_i8.o")
            results.append(check_loop(limit, gemm, name))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        forward = pool.map(partial(arm64_forward.millions_per_token, drivers=drivers), arm64_forward.GATED)
        results += pool.map(partial(check_count, drivers.gemm), COUNTS)
        counted = {case.name: groups for case, groups in zip(arm64_forward.GATED, forward, strict=True)}
    if arguments.refresh:
        arm64_forward.write_baseline(counted)
    results += check_forward(counted)
    for r in results:
        print(f"{'ok  ' if r.passed else 'FAIL'} {r.what:<72} {r.measured:>10}  {r.limit}")
    return 0 if all(r.passed for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
