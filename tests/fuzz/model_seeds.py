"""The shapes of model files as inputs of tests/native/programs/fuzz_model.c."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from engine.model_file import ModelFile

CHANGE = struct.Struct("<BBQ")  # field, tensor, value
STEPS = bytes((20, 64, 15, 128 + 10, 31, 64, 200))
CHANGES = [
    b"",
    CHANGE.pack(0, 0, 2**63 - 1),
    CHANGE.pack(1, 0, 2**42 + 1),
    CHANGE.pack(4, 5, 0xFFFFFFFF),
    CHANGE.pack(5, 4, 29),
    CHANGE.pack(6, 3, 1),
    CHANGE.pack(7, 2, int.from_bytes(b"nowhere\0", "little")),
]


def head(file: ModelFile, n_changes: int, exact: bool) -> bytes:
    """any_head of the harness."""
    c = file.config
    sizes = (
        c.n_layers, c.n_vocab, c.n_hidden, c.n_ffn, c.n_heads, c.n_kv_heads, c.head_dim, c.rotary_dims,
        c.n_key_heads, c.n_value_heads, c.delta_head_dim, c.conv_kernel,
    )  # fmt: skip
    matrices = [tensor.type for tensor in file.tensors.values() if len(tensor.dims) == 2]
    types = bytes((matrices * 16)[:16])
    recurrent = sum(int(flag) << i for i, flag in enumerate(c.recurrent_layers))
    flags = struct.pack("<6B", 2, 0, exact, c.tied, 0, n_changes)
    return struct.pack("<12H2f", *sizes, c.rms_eps, c.rope_base) + flags + struct.pack("<Q", recurrent) + types


def write_seeds(folder: Path, files: Iterable[Path]) -> None:
    """Each file's shape as it is, and with one thing changed."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in files:
        with ModelFile(path) as file:
            for number, changes in enumerate(CHANGES):
                seed = head(file, len(changes) // CHANGE.size, number == 0) + changes + STEPS
                (folder / f"{path.stem}.{number}").write_bytes(seed)
