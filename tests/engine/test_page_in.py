"""The weights come into memory by themselves, in the order in which a forward pass uses them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine import page_in
from engine.gguf_reader import Tensor
from engine.page_in import PageIn
from tests.engine.oracle_models import model_file

MIB = 1 << 20


def tensors(*places: tuple[str, int, int]) -> dict[str, Tensor]:
    return {name: Tensor(name, 0, "F32", (size // 4,), offset, size) for name, offset, size in places}


class Disk:
    """What was read, in place of os.preadv."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing: bool = False) -> None:
        self.reads: list[tuple[int, int]] = []
        self.failing = failing
        monkeypatch.setattr(page_in.os, "preadv", self.preadv)
        monkeypatch.setattr(page_in, "READERS", 1)

    def preadv(self, fd: int, buffers: list[memoryview], offset: int) -> int:
        os.fstat(fd)  # is open
        if self.failing:
            raise OSError(5, "Input/output error")
        self.reads.append((offset, sum(map(len, buffers))))
        return self.reads[-1][1]


def test_layers_are_read_in_order_and_what_lies_between_them_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    held = tensors(
        ("token_embd.weight", 0, 2 * MIB),
        ("blk.10.attn_norm.weight", 2 * MIB, MIB),
        ("blk.2.ffn_up.weight", 4 * MIB, MIB),
        ("blk.2.ffn_down.weight", 3 * MIB, MIB),
        ("output_norm.weight", 5 * MIB, MIB),
        ("strange", 9 * MIB, MIB),
    )
    with (tmp_path / "file").open("wb") as file:
        pages = PageIn(file.fileno(), held)
        assert pages.wait(10)
    assert disk.reads == [
        (3 * MIB, 2 * MIB),
        (2 * MIB, MIB),
        (0, 2 * MIB),
        (5 * MIB, MIB),
        (9 * MIB, MIB),
    ]
    assert pages.n_bytes == 7 * MIB
    assert pages.ms > 0


def test_a_large_range_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    with (tmp_path / "file").open("wb") as file:
        assert PageIn(file.fileno(), tensors(("blk.0.x", 32, 40 * MIB))).wait(10)
    assert disk.reads == [(32, 16 * MIB), (32 + 16 * MIB, 16 * MIB), (32 + 32 * MIB, 8 * MIB)]


def test_every_byte_of_every_tensor_is_read_by_the_readers_together() -> None:
    with model_file("q.q8_0") as file:
        pages = file.read_ahead()
        assert pages.wait(10)
        assert pages.n_bytes >= sum(tensor.n_bytes for tensor in file.tensors.values())
        assert pages.n_bytes <= file.size


def test_a_disk_that_fails_ends_it_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Disk(monkeypatch, failing=True)
    with (tmp_path / "file").open("wb") as file:
        assert PageIn(file.fileno(), tensors(("blk.0.x", 0, MIB))).wait(10)


def test_the_file_may_be_closed_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    file = (tmp_path / "file").open("wb")
    pages = PageIn(file.fileno(), tensors(("blk.0.x", 0, MIB)))
    file.close()
    assert pages.wait(10)
    assert disk.reads == [(0, MIB)]
