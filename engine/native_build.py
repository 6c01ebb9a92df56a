"""Build the extension module ``engine._native``: native/include/qwarm.h through cffi, and the static library.

python engine/native_build.py build/x86_64/libqwarm.a engine/_native.abi3.so

The module uses Python's stable ABI, so one file serves every Python from 3.11 on.  CC names the compiler.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

from cffi import FFI

INCLUDE = Path(__file__).resolve().parent.parent / "native" / "include"


def declarations(header: str) -> str:
    """The header as cffi reads it: declarations and comments, no preprocessor lines."""
    return "\n".join(line for line in header.splitlines() if not line.startswith("#"))


def emit(source: Path) -> None:
    """Write the C code of the module."""
    ffi = FFI()
    ffi.cdef(declarations((INCLUDE / "qwarm.h").read_text()))
    ffi.set_source("engine._native", '#include "qwarm.h"')
    ffi.emit_c_code(str(source))


def link(source: Path, library: Path, module: Path) -> None:
    """Compile and link it; the library's own symbols stay private to the module."""
    compiler = shlex.split(os.environ.get("CC", "gcc"))
    python = sysconfig.get_path("include")
    flags = ["-O2", "-fPIC", "-shared", "-pthread", "-Wl,--exclude-libs,ALL", "-Wl,-z,relro,-z,now"]
    inputs = [f"-I{INCLUDE}", f"-I{python}", str(source), str(library), "-lm"]
    partial = module.with_suffix(".partial")
    subprocess.run([*compiler, *flags, *inputs, "-o", str(partial)], check=True)
    partial.replace(module)  # a process that has the old one mapped keeps it


def main() -> None:
    parser = argparse.ArgumentParser(description="Build engine._native.")
    parser.add_argument("library", type=Path, help="the static library, build/<arch>/libqwarm.a")
    parser.add_argument("module", type=Path, help="the module to write, engine/_native.abi3.so")
    args = parser.parse_args()
    source = args.library.with_name("_native.c")
    emit(source)
    link(source, args.library, args.module)


if __name__ == "__main__":
    main()
