"""What a fuzzer does with the GGUF reader: it damages model files and opens them.

A file may load or be refused with ModelFileError, in words, quickly and without the memory it only claims.
"""

from __future__ import annotations

import os
import random
import struct
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from engine.errors import ModelFileError
from engine.model_file import ModelFile
from engine.special_marks import SpecialMarks
from engine.tokenizer import Tokenizer

ORACLE = Path(__file__).parents[1] / "fixtures" / "oracle"
MOST_S = 2.0
INTERESTING = [0, 1, 3, 7, 8, 9, 12, 13, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1]
Range = tuple[int, int]


class Target:
    """Opens one damaged file after another."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(), "model.gguf")
        self.loaded = self.refused = 0

    def open(self, data: bytes) -> None:
        """AssertionError, or whatever a bug raises, if the reader does not do as promised."""
        self.path.write_bytes(data)
        started_s = time.perf_counter()
        try:
            with ModelFile(self.path) as file:
                SpecialMarks(Tokenizer(file))
                _ = file.fingerprint
                for tensor in file.tensors.values():
                    assert tensor.offset > 0 and tensor.offset + tensor.n_bytes <= len(data)
            self.loaded += 1
        except ModelFileError as error:
            if not str(error).startswith(str(self.path)):
                raise AssertionError("the file is not named") from error
            self.refused += 1
        took_s = time.perf_counter() - started_s
        assert took_s < MOST_S, f"{took_s:.1f} s for {len(data)} bytes"


def seeds() -> list[bytes]:
    """Small model files that load, without most of their weights: those are never read here."""
    return [path.read_bytes() for path in sorted(ORACLE.glob("*.gguf"), key=os.path.getsize)[:3]]


def header_bytes(data: bytes) -> int:
    """Where the weights begin."""
    path = Path(tempfile.mkdtemp(), "seed.gguf")
    path.write_bytes(data)
    with ModelFile(path) as file:
        return min(tensor.offset for tensor in file.tensors.values())


def damaged(seed: bytes, n_header: int, choose: random.Random) -> bytes:
    """The file with one to four things in its header changed."""
    data = bytearray(seed)
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        at = choose.randrange(min(n_header, len(data)))
        match choose.randrange(7):
            case 0:
                data[at] ^= 1 << choose.randrange(8)
            case 1:
                data[at] = choose.randrange(256)
            case 2:
                _write(data, at, struct.pack("<Q", choose.choice(INTERESTING)))
            case 3:
                _write(data, at, struct.pack("<I", choose.choice(INTERESTING) & 0xFFFFFFFF))
            case 4:
                del data[at : at + choose.randrange(1, 64)]
            case 5:
                data[at:at] = data[at : at + choose.randrange(1, 64)]
            case _:
                del data[choose.randrange(1, len(data)) :]
    return bytes(data)


def _write(data: bytearray, at: int, value: bytes) -> None:
    data[at : at + len(value)] = value[: len(data) - at]


def fuzz(target: Target, files: Sequence[bytes], choose: random.Random, until_s: float) -> int:
    """Damage and open files until the clock says so; how many there were."""
    headers = [header_bytes(file) for file in files]
    n_files = 0
    while time.monotonic() < until_s:
        index = choose.randrange(len(files))
        data = damaged(files[index], headers[index], choose)
        n_files += 1
        try:
            target.open(data)
        except BaseException:  # a panic in Rust is no Exception
            kept = Path("build", "fuzz", f"gguf-{n_files}.gguf")
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(data)
            print(f"found with {kept}", flush=True)
            raise
    return n_files
