"""The arm64 performance gate, for any machine: no Arm core, no clock, the same figures in every run.

Three kinds of check on the objects that the product's own rules build:
  loop   llvm-mca's int8 multiply-accumulates per cycle in the GEMM's inner loop, which must not spill
  count  instructions that qemu executed per multiply-accumulate, per weight or, with --forward, per token of the
         whole engine, counted by a plugin
  isa    no instruction of the i8mm set among the dotprod set's

Exit status: 0 passed, 1 failed, 3 a tool is missing (1 with --require).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "gate"
GCC = "aarch64-linux-gnu-gcc"
CLANG = "clang-19 --target=aarch64-linux-gnu"
QEMU = "qemu-aarch64"
OBJDUMP = "aarch64-linux-gnu-objdump"
MCA = "llvm-mca-19"
PACKAGES = {
    "make": "make",
    "gcc": "gcc",
    GCC: "gcc-aarch64-linux-gnu",
    OBJDUMP: "binutils-aarch64-linux-gnu",
    QEMU: "qemu-user (not qemu-user-static, which takes no plugins)",
    "clang-19": "clang-19",
    MCA: "llvm-19",
}
CPUS = {"dotprod": "neoverse-n1", "i8mm": "max,sve=off"}  # what qemu runs a set on: it has no neoverse-v1
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
class ForwardCeiling:
    """Instructions of the whole engine; the driver's model has a sixth of Qwen3.5-0.8B's layers, and no head."""

    isa: str
    phase: str
    tokens: int
    ceiling: float  # millions per token, all 24 layers


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
FORWARD = (
    ForwardCeiling("i8mm", "prefill", 128, 45),
    ForwardCeiling("dotprod", "prefill", 128, 62),
    ForwardCeiling("dotprod", "decode", 8, 290),
)


def run(*command: str, cwd: Path = ROOT, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command whose failure is the gate's own: show what it said."""
    done = subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def build(compiler: str, name: str, *targets: str) -> list[str]:
    """Objects or the library, as the product's rules make them, in a folder of this name; their paths."""
    folder = f"{BUILD.relative_to(ROOT)}/{name}"
    paths = [f"{folder}/{target}" for target in targets]
    run("make", "-s", "-f", "native/rules.mk", "ARCH=aarch64", f"CC={compiler}", f"BUILD={folder}", *paths)
    return paths


def kernel_objects() -> list[str]:
    sources = [s for isa in ("scalar", *CPUS) for s in sorted((ROOT / "native/src/kernels" / isa).glob("*.c"))]
    sources += [ROOT / "native/src/kernels/select.c", ROOT / "native/src/quant.c"]
    return [str("obj" / s.relative_to(ROOT / "native/src").with_suffix(".o")) for s in sources]


def build_driver(name: str, objects: list[str]) -> Path:
    driver = BUILD / name
    command = (GCC, "-O2", "-static", "-Inative/include", "-Inative/src", f"{HERE}/{name}.c", *objects)
    run(*command, "-lm", "-pthread", "-o", str(driver))
    return driver


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


def count(plugin: Path, driver: Path, isa: str, *job: str) -> tuple[Counter[str], int]:
    """Instructions of one pass of a driver, by function: a run with it less one without; and the pass's size."""
    counts, size = [], 0
    for passes in ("0", "1"):
        qemu = (QEMU, "-cpu", CPUS[isa], "-plugin", str(plugin), "-d", "plugin")
        done = run(*qemu, str(driver), isa, *job, passes)
        fields = [line.rsplit(" ", 1) for line in done.stderr.splitlines()]
        counts.append(Counter({function: int(n) for function, n in fields}))
        size = int(done.stdout)
    return counts[1] - counts[0], size


def check_count(limit: CountCeiling, plugin: Path, driver: Path) -> Result:
    executed, mac = count(plugin, driver, limit.isa, limit.type, str(limit.rows))
    ratio = executed.total() / mac
    job = f"P8 of {limit.rows} rows: instructions/MAC" if limit.rows else "GEMV: instructions/weight"
    return Result(f"{limit.isa} {limit.type} {job}", f"{ratio:.4f}", f"<= {limit.ceiling:g}", ratio <= limit.ceiling)


def check_forward(limit: ForwardCeiling, plugin: Path, driver: Path) -> Result:
    """Also prints where the instructions went."""
    executed, n_tokens = count(plugin, driver, limit.isa, limit.phase, str(limit.tokens))
    millions = executed.total() * 6 / n_tokens / 1e6
    print(f"{limit.isa} {limit.phase}: {millions:.1f} million instructions per token")
    for function, n in executed.most_common(16):
        print(f"    {function:<36} {n * 6 / n_tokens / 1e6:8.3f} {n / executed.total():6.1%}")
    what = f"{limit.isa} {limit.phase} of {limit.tokens} tokens: million instructions/token"
    return Result(what, f"{millions:.1f}", f"<= {limit.ceiling:g}", millions <= limit.ceiling)


def check_isa(objects: list[str]) -> Result:
    found = sum(
        mnemonic.endswith("mmla") or mnemonic in ("usdot", "sudot", "bfdot")
        for path in objects
        if "/dotprod/" in path
        for _, mnemonic, _ in instructions(path)
    )
    return Result("dotprod objects: i8mm and bf16 instructions", str(found), "0", found == 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--require", action="store_true", help="fail when a tool is missing")
    parser.add_argument("--forward", action="store_true", help="count the whole engine too: half a minute more")
    arguments = parser.parse_args()
    missing = [f"{tool} (in Debian: {PACKAGES[tool]})" for tool in PACKAGES if not shutil.which(tool)]
    if missing:
        print("The arm64 gate did not run; missing: " + ", ".join(missing), file=sys.stderr)
        return 1 if arguments.require else 3

    objects = build(GCC, "gcc", *kernel_objects())
    driver, plugin = build_driver("gemm_driver", objects), BUILD / "count_instructions.so"
    run("gcc", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"{HERE}/count_instructions.c", "-o", str(plugin))

    results = [check_isa(objects)]
    for limit in LOOPS:
        for name, compiler in (("gcc", GCC), ("clang", CLANG)):
            [gemm] = build(compiler, name, f"obj/kernels/{limit.isa}/gemm_i8.o")
            results.append(check_loop(limit, gemm, name))
    results += [check_count(c, plugin, driver) for c in COUNTS]
    if arguments.forward:
        driver = build_driver("forward_driver", build(GCC, "gcc", "libqwarm.a"))
        results += [check_forward(f, plugin, driver) for f in FORWARD]
    for r in results:
        print(f"{'ok  ' if r.passed else 'FAIL'} {r.what:<72} {r.measured:>10}  {r.limit}")
    return 0 if all(r.passed for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
