"""The GGUF reader under Atheris, which keeps the inputs that reach new lines: takes libFuzzer's arguments.

PYTHONPATH=.:build/fuzz-venv/lib/python3.11/site-packages python tests/fuzz/fuzz_gguf.py build/fuzz/gguf
"""

from __future__ import annotations

import random
import sys

import atheris

with atheris.instrument_imports(include=["engine"]):
    from tests.fuzz.gguf_target import Target, damaged


def mutate(data: bytes, most_bytes: int, seed: int) -> bytes:
    """Half the time as libFuzzer does, half the time in ways that a GGUF file minds."""
    choose = random.Random(seed)
    changed: bytes = damaged(data, choose) if choose.random() < 0.5 else atheris.Mutate(data, most_bytes)
    return changed[:most_bytes]


if __name__ == "__main__":
    atheris.Setup(sys.argv, Target().open, custom_mutator=mutate)
    atheris.Fuzz()
