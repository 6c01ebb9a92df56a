"""Reads the weights into the page cache before they are used, many pieces at a time.

A mapped file that is not in memory is read where it is touched, one thread waiting for one small read; Lambda's disk
fetches what it does not have over the network, so many large reads at once are what it is quick at.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping

from engine.gguf_reader import Tensor

READERS = 8
_PIECE_BYTES = 16 << 20  # one system call: a reader needs the interpreter, which the tokenizer keeps busy, in between
_SCRATCH_BYTES = 256 << 10
_PADDING_BYTES = 4096  # at most, between tensors that follow each other
_AFTER_THE_LAYERS = 1 << 16


class PageIn:
    """Reads these tensors in the background, first layer first, from its making on.  A failed read ends it silently:
    who needs those bytes reads them again, and hears of it.

    ``n_bytes`` is what it reads; ``ms`` the time that took, 0 until it has ended.
    """

    def __init__(self, fd: int, tensors: Mapping[str, Tensor]) -> None:
        pieces = list(_pieces(tensors))
        self.n_bytes = sum(n_bytes for _, n_bytes in pieces)
        self.ms = 0.0
        self._fd = os.dup(fd)
        self._pieces = iter(pieces)
        self._guard = threading.Lock()
        self._reading = max(1, min(READERS, len(pieces)))
        self._ended = threading.Event()
        self._begun_s = time.perf_counter()
        for _ in range(self._reading):
            threading.Thread(target=self._read, name="page-in", daemon=True).start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until everything is read; False if that takes longer."""
        return self._ended.wait(timeout_s)

    def _read(self) -> None:
        scratch = memoryview(bytearray(_SCRATCH_BYTES))
        try:
            while piece := self._next_piece():
                start, n_bytes = piece
                os.preadv(self._fd, [scratch] * -(-n_bytes // _SCRATCH_BYTES), start)
        except OSError:
            return
        finally:
            self._end()

    def _next_piece(self) -> tuple[int, int] | None:
        with self._guard:
            return next(self._pieces, None)

    def _end(self) -> None:
        with self._guard:
            self._reading -= 1
            if self._reading == 0:
                os.close(self._fd)
                self.ms = (time.perf_counter() - self._begun_s) * 1e3
                self._ended.set()


def _ranges(tensors: Mapping[str, Tensor]) -> list[tuple[int, int]]:
    """Where the tensors lie, layer by layer; neighbors in one range.  The output matrix is used last."""
    ranges: list[tuple[int, int]] = []
    for tensor in sorted(tensors.values(), key=lambda tensor: (_layer(tensor.name), tensor.offset)):
        start, end = tensor.offset, tensor.offset + tensor.n_bytes
        if ranges and 0 <= start - ranges[-1][1] < _PADDING_BYTES:
            start, _ = ranges.pop()
        ranges.append((start, end))
    return ranges


def _layer(name: str) -> int:
    """The number in blk.NUMBER.attn_norm.weight."""
    block, _, rest = name.partition(".")
    number = rest.partition(".")[0]
    return int(number) if block == "blk" and number.isdecimal() else _AFTER_THE_LAYERS


def _pieces(tensors: Mapping[str, Tensor]) -> Iterator[tuple[int, int]]:
    """Offset and size of what one call reads."""
    for start, end in _ranges(tensors):
        for at in range(start, end, _PIECE_BYTES):
            yield at, min(_PIECE_BYTES, end - at)
