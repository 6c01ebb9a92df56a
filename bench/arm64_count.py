"""Builds the engine for arm64 with the product's own rules and counts the instructions that qemu executes in it.

Exact and the same in every run, so a figure can be compared with one that was counted elsewhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DRIVERS = ROOT / "bench" / "gate"
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
    QEMU: "qemu-user",
    "clang-19": "clang-19",
    MCA: "llvm-19",
}
CPUS = {"dotprod": "neoverse-n1", "i8mm": "max,sve=off"}  # what qemu runs a set on: it has no neoverse-v1
PLUGIN = BUILD / "count_instructions.so"


def missing_tools() -> list[str]:
    """The tools that are not here, each with the package that has it."""
    missing = [f"{tool} (in Debian: {PACKAGES[tool]})" for tool in PACKAGES if not shutil.which(tool)]
    if shutil.which(QEMU) and "-plugin" not in run(QEMU, "-h").stdout:
        missing.append(f"a {QEMU} that takes plugins (Debian 13's, and every static one, does not)")
    return missing


def run(*command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command whose failure is the caller's own: show what it said."""
    done = subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def build(compiler: str, name: str, *targets: str) -> list[str]:
    """Objects or the library, as the product's rules make them, in a folder of this name; their paths."""
    folder = f"{BUILD.relative_to(ROOT)}/{name}"
    paths = [f"{folder}/{target}" for target in targets]
    run(
        "make",
        "-s",
        f"-j{os.cpu_count()}",
        "-f",
        "native/rules.mk",
        "ARCH=aarch64",
        f"CC={compiler}",
        f"BUILD={folder}",
        *paths,
    )
    return paths


def build_plugin() -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    run("gcc", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"{DRIVERS}/count_instructions.c", "-o", str(PLUGIN))


def build_driver(name: str, objects: list[str]) -> Path:
    driver = BUILD / name
    command = (GCC, "-O2", "-static", "-Inative/include", "-Inative/src", f"{DRIVERS}/{name}.c", *objects)
    run(*command, "-lm", "-pthread", "-o", str(driver))
    return driver


def count(driver: Path, isa: str, *job: str) -> tuple[Counter[str], int]:
    """Instructions of one pass of a driver, by function: a run with it less one without; and the pass's size."""
    counts, size = [], 0
    for passes in ("0", "1"):
        qemu = (QEMU, "-cpu", CPUS[isa], "-plugin", str(PLUGIN), "-d", "plugin")
        done = run(*qemu, str(driver), isa, *job, passes)
        fields = [line.rsplit(" ", 1) for line in done.stderr.splitlines()]
        counts.append(Counter({function: int(n) for function, n in fields}))
        size = int(done.stdout)
    return counts[1] - counts[0], size
