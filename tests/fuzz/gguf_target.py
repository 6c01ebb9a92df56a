"""What a fuzzer does with the GGUF reader: it damages model files and opens them.

A file may load or be refused with ModelFileError, in words, quickly and without the memory it only claims.  An input is
a file's size, 4 bytes, and its header; the weights, which nobody reads here, are zeros.
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
MOST_BYTES = 16 << 20
MOST_S = 2.0
INTERESTING = [0, 1, 3, 7, 8, 9, 12, 13, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1]
_SIZE = struct.Struct("<I")


class Target:
    """Opens one damaged file after another."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(), "model.gguf")
        self.loaded = self.refused = 0

    def open(self, data: bytes) -> None:
        """AssertionError, or whatever a bug raises, if the reader does not do as promised."""
        self._write(data)
        started_s = time.perf_counter()
        try:
            with ModelFile(self.path) as file:
                SpecialMarks(Tokenizer(file))
                _ = file.fingerprint
                for tensor in file.tensors.values():
                    assert tensor.offset > 0 and tensor.offset + tensor.n_bytes <= file.size
            self.loaded += 1
        except ModelFileError as error:
            if not str(error).startswith(str(self.path)):
                raise AssertionError("the file is not named") from error
            self.refused += 1
        took_s = time.perf_counter() - started_s
        assert took_s < MOST_S, f"{took_s:.1f} s for {len(data)} bytes"

    def _write(self, data: bytes) -> None:
        size, header = data[: _SIZE.size], data[_SIZE.size :]
        self.path.write_bytes(header)
        if len(size) == _SIZE.size:
            os.truncate(self.path, min(_SIZE.unpack(size)[0], MOST_BYTES))


def seeds() -> list[bytes]:
    """Inputs that load: the model files of the fixtures."""
    found = []
    for path in sorted(ORACLE.glob("*.gguf")):
        with ModelFile(path) as file:
            start = min(tensor.offset for tensor in file.tensors.values())
            found.append(_SIZE.pack(file.size) + bytes(file.buffer[:start]))
    return found


def damaged(seed: bytes, choose: random.Random) -> bytes:
    """The input with one to four things in it changed."""
    data = bytearray(seed)
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        at = choose.randrange(max(1, len(data)))
        match choose.randrange(7):
            case 0:
                _write(data, at, bytes([data[at] ^ 1 << choose.randrange(8)]) if data else b"")
            case 1:
                _write(data, at, bytes([choose.randrange(256)]))
            case 2:
                _write(data, at, struct.pack("<Q", choose.choice(INTERESTING)))
            case 3:
                _write(data, at, struct.pack("<I", choose.choice(INTERESTING) & 0xFFFFFFFF))
            case 4:
                del data[at : at + choose.randrange(1, 64)]
            case 5:
                data[at:at] = data[at : at + choose.randrange(1, 64)]
            case _:
                _write(data, 0, _SIZE.pack(choose.randrange(2 * len(data) + 1)))
    return bytes(data)


def _write(data: bytearray, at: int, value: bytes) -> None:
    data[at : at + len(value)] = value[: len(data) - at]


def fuzz(target: Target, inputs: Sequence[bytes], choose: random.Random, until_s: float) -> int:
    """Damage and open files until the clock says so; how many there were."""
    n_files = 0
    while time.monotonic() < until_s:
        data = damaged(choose.choice(inputs), choose)
        n_files += 1
        try:
            target.open(data)
        except BaseException:  # a panic in Rust is no Exception
            kept = Path("build", "fuzz", f"gguf-{n_files}")
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(data)
            print(f"found with {kept}", flush=True)
            raise
    return n_files
